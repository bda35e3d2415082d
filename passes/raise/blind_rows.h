// Rows of attention whose keys are all hidden, apart from the others.
#pragma once

#include "passes/pass.h"
#include "passes/rewrite/rewriter.h"

namespace asyra {

// Exported masks hide keys by a finite score, as -1e9 or the lowest number of a
// type. In a row that sees a key, a hidden one has weight 0, as if its score
// were -inf; in a row that sees none (padding before a text) all keys have the
// same weight. Such an attention with a bool mask becomes one that hides keys
// by -inf, which is what fast kernels compute, and a select that gives rows
// without a key the mean of the values. Its log sums say which rows these are.
//
// Left as they are: a single row (decode: the mean would read all values once
// more), lengths beside the mask, float masks, scores above kAsGoodAsHidden.
absl::StatusOr<bool> AverageBlindRows(Program& program,
                                      const PassOptions& options,
                                      PassContext& context);

// Adds an attention of these operands and attributes, which hides keys by -inf,
// and gives rows that see none the mean of the values of all keys. They have no
// sinks.
absl::StatusOr<ValueId> AverageRowsWithoutKey(
    Rewriter& to, absl::Span<const ValueId> operands, AttrMap attrs);

}  // namespace asyra
