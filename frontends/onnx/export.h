// ONNX models with other values of their weights.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "ir/weights/weight_store.h"

namespace asyra {

// Writes the ONNX file `model` to `path`, with `tensors`, by name, in place of
// those that it stores; they are rounded to the types that the file has. All
// else stays as it is. What the file has in external data goes to PATH_data
// beside `path`.
// Errors: those of reading the model; a tensor that it does not store, or of
// another shape, with both; the system's. `path` is then as it was.
absl::Status ExportOnnx(const std::string& model, const WeightStore& tensors,
                        const std::string& path);

}  // namespace asyra
