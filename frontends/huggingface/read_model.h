// A model of a config.json with the files beside it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "frontends/huggingface/families.h"
#include "ir/program.h"
#include "ir/weights/weight_store.h"

namespace asyra {

struct HuggingFaceModel {
  FamilyModel family;
  std::shared_ptr<const WeightStore> file;  // null: there are no safetensors
  Program program;  // its weights are the tables of rotary embedding only
};

// Errors as ImportHuggingFace (import.h), but those of SetWeights.
absl::StatusOr<HuggingFaceModel> ReadHuggingFace(
    const std::string& path, const std::map<std::string, int64_t>& sizes);

}  // namespace asyra
