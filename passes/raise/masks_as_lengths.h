// Padding masks of attention as lengths.
#pragma once

#include "passes/pass.h"

namespace asyra {

// An attention whose mask is computed from one input [B, T] of zeros and ones
// (mask_flow.h), with or without a triangle or window of positions, gets the
// number of ones in each row as lengths, and the positions as attributes. This
// is right where all rows are ones, then zeros. Only the values of a step tell,
// so `mask_lengths` checks them there, and any other row is an error.
//
// Rows of attention that see no key keep their meaning. Where keys are hidden
// by -inf or beside a sink, lengths give the same. Where a finite number hides
// them, such a row is the mean of all values: a step then needs a one in each
// row of the input, so that each row of attention sees the first key; behind a
// window, which may hide that key, the mean is added apart (blind_rows.h), or
// the mask stays if it is a float one. A remark names each attention whose mask
// stays, and why.
//
// With option `only_says` the program stays as it is, and a remark names the
// inputs whose masks could be lengths.
absl::StatusOr<bool> MasksAsLengths(Program& program,
                                    const PassOptions& options,
                                    PassContext& context);

}  // namespace asyra
