// Tensors under users' names as a program reads them.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "ir/tensor.h"
#include "ir/weights/weight_store.h"

namespace asyra {

// The data of a weight as its program reads it, from tensors that are named and
// shaped as users know them (or as the program does); none where there are
// none. Error: a tensor of another shape.
absl::StatusOr<std::optional<Tensor>> FindAsRead(const WeightStore& tensors,
                                                 const Program& program,
                                                 const Input& input);

}  // namespace asyra
