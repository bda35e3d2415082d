// Hugging Face's models: a config.json, with safetensors beside it, or without,
// for what-if questions.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "ir/program.h"

namespace asyra {

// Returns the file of a model that `path` names: itself, if it is called
// *.json, or the config.json in the folder that it is; empty: neither.
std::string HuggingFaceConfig(const std::string& path);

// The program of the model of a config.json: input ids, output logits. Its
// weights have the names that files of its family have, those of experts
// stacked, and data where there are safetensors in the folder. `sizes`: batch
// (1), seq (the model's positions, at most 2048), layers, logits (of the last
// tokens only; 0: of all), capacity_percent of experts (0: drops no token).
// Errors name the file: those of ReadFamily, BuildDecoder, ReadCheckpoint and
// SetWeights.
absl::StatusOr<Program> ImportHuggingFace(
    const std::string& path, const std::map<std::string, int64_t>& sizes);

}  // namespace asyra
