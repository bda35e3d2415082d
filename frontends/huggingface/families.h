// Descriptions of decoders from Hugging Face's config.json.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "models/decoder.h"
#include "nlohmann/json.hpp"

namespace asyra {

struct FamilyModel {
  DecoderConfig decoder;
  bool says_dtype = false;  // the file says which element type weights have
  // Names of the model within files, one of which stands before the names of
  // weights: "model.layers.0" may be "layers.0", or
  // "language_model.model.layers.0".
  std::vector<std::string> prefixes;
  std::string prefix;  // the one that the decoder's names have
};

// `sizes` overrides by name: batch (1), seq (the model's positions, at most
// 2048), layers, logits, capacity_percent.
// Errors: a model_type that is not known, with those that are; a field that
// lacks, or that says what is not supported, by name.
absl::StatusOr<FamilyModel> ReadFamily(
    const nlohmann::json& config, const std::map<std::string, int64_t>& sizes);

// "gemma, gemma2, ...".
std::string KnownFamilies();

}  // namespace asyra
