// Tensors of users in the element type that a program takes.
#pragma once

#include "absl/status/statusor.h"
#include "ir/tensor.h"

namespace asyra {

// The same values in another element type. Error: a value that `dtype` does not
// have, by its position; both types are named. With `round`, floats become the
// nearest of a narrower float type instead.
absl::StatusOr<Tensor> ConvertTensor(const Tensor& tensor, DType dtype,
                                     bool round);

}  // namespace asyra
