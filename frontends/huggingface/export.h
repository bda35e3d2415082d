// Hugging Face's models with other values of their weights.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "ir/weights/weight_store.h"

namespace asyra {

// Makes the folder `to` that transformers reads: the config.json of `path` as
// it is, and model.safetensors with `tensors`, by the names of the imported
// program, in place of the model's own: each expert apart where the family's
// files have them so, in the element types that the model's files have, or that
// of config.json.
// Errors: those of reading the model; a tensor that is neither given nor in the
// model's files, or of another shape, with both; the system's.
absl::Status ExportHuggingFace(const std::string& path,
                               const WeightStore& tensors,
                               const std::string& to);

}  // namespace asyra
