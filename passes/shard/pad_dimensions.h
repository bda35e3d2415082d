// Padding of a dimension of weights.
//
// Zeros behind a dimension of a weight are propagated along the factors of axis
// rules, as long as they cannot change other elements:
//   parallel factors   other elements do not depend on the padding
//   reductions         where one factor of a product is zero in the padding and
//                      the others are finite, or no index names padded rows
// Elsewhere (softmax over the vocabulary, a mean) ops need the dimension whole
// anyway, and a slice removes the padding before them, and at outputs. A lookup
// keeps the number of rows without padding as its attribute `rows`, from whose
// end negative indices count. A weight times an activation is assumed to be
// finite.
//
// Under training the padding has to stay zero, so gradients there are zero,
// too: the gradient of a factor of a product is the others times what comes
// back, so two of them have to be zero in the padding; and what an op computes
// there is one known scalar that changes slowly with its operands, since zero
// times the slope of a root at zero is none.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "ir/program.h"

namespace asyra {

// Returns the program of stage global with all dimensions of weights of size
// `from` padded to `to`, if padding reaches an op before it is sliced off; none
// if there is no such dimension. `trained`: it becomes a training step.
absl::StatusOr<std::optional<Program>> PadDimensions(const Program& program,
                                                     int64_t from, int64_t to,
                                                     bool trained = false);

}  // namespace asyra
