// Weights of a Hugging Face model: safetensors beside its config.json.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "frontends/huggingface/families.h"
#include "ir/program.h"
#include "ir/weights/weight_store.h"

namespace asyra {

// All tensors of a folder, as views of mapped files: those that
// model.safetensors.index.json names, or those of model.safetensors. Null where
// neither is there. Errors: those of reading; an index that names a file that
// lacks, or a tensor that its file lacks.
absl::StatusOr<std::shared_ptr<const WeightStore>> ReadCheckpoint(
    const std::string& folder);

// The name of the weight of expert `expert` in files that have experts apart;
// empty: `weight` is not one of experts.
std::string OfExpert(const FamilyModel& model, std::string_view weight,
                     int64_t expert);

// The tables of rotary embedding, which no file has.
bool IsRopeTable(const FamilyModel& model, std::string_view weight);

// The tensors of a file that a weight of the program consists of.
struct StoredTensors {
  std::vector<std::string> names;
  bool apart = false;  // one of each expert; else one
};

// Returns the tensors that files of the family have.
StoredTensors FamilyTensors(const FamilyModel& model, std::string_view weight);

// Returns those that this file has: one, or as the family does; names may have
// any prefix of the family. Error: the tensor that the file lacks.
absl::StatusOr<StoredTensors> TensorsIn(const WeightStore& file,
                                        const FamilyModel& model,
                                        std::string_view weight);

// Gives the program's weights the tensors of `file`, rounded to the program's
// element type; they are read when they are needed, by the shards that need
// them. Errors: a tensor that lacks, or has another shape, with both.
absl::Status SetWeights(const FamilyModel& model, const WeightStore& file,
                        Program* program);

}  // namespace asyra
