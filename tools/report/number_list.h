// Numbers in the text of a command line.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "ir/tensor.h"

namespace asyra {

// "1,2.5,true": one dimension, i64 if all are integers or truth values, else
// f64. None if a word is no number.
std::optional<Tensor> ReadNumberRow(const std::string& text);

// "[[1, 2], [3, 4]]" in the shape of the brackets, of the same types. Errors:
// no such list, rows of different lengths or depths.
absl::StatusOr<Tensor> ReadNestedNumbers(const std::string& text);

}  // namespace asyra
