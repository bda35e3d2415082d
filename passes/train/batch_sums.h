// The values of a model that are sums or means over the rows of its batch.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "ir/dim_names.h"
#include "ir/program.h"

namespace asyra {

// The way a value follows from the rows of the batch, and with it the value
// that several batches together have.
enum class BatchUse : uint8_t {
  kFixed,  // not from data: the same in each batch
  kRows,   // has a dimension of the batch
  kSum,    // a sum over the rows: of several batches, the sum of theirs
  kMean,   // a mean over as many terms in each batch: the mean of theirs
  kMixed,  // from rows in another way
};

// Returns the uses by value of a program of stage global. Dimensions of the
// batch are those that dim_labels.h finds, by `names` first; the first ones of
// data inputs where it finds none. Values with one count as rows even where
// they are computed with other rows, as by a norm over the batch.
//
// What follows from sums and means is read off axis rules: an op that is linear
// in its operands leaves sums of sums. A sum that is scaled by a scalar other
// than 1 and -1 is kMixed where the scalar, or its inverse, is a multiple of
// the batch: it may be the number of terms, and the sum a mean.
// Error: an op without an axis rule.
absl::StatusOr<std::vector<BatchUse>> BatchUses(const Program& program,
                                                const DimNames& names);

}  // namespace asyra
