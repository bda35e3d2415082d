// Checkpoints of a training run: folders of safetensors in global layout, which
// any mesh, any number of ranks and any reader of safetensors can open.
//
//   DIRECTORY/step-00001000/
//     model.safetensors.index.json     names of params -> files, as Hugging
//     model-00001-of-00002.safetensors Face writes them
//     ...
//     state.safetensors.index.json     the same for the optimizer's states
//     state-00001-of-00004.safetensors
//     checkpoint.json                  step, hash of the program, files, sizes
//
// A folder of that name is complete: it was written under another name,
// flushed to the disk, and renamed. Folders with any other suffix are not read.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/comm/communicator.h"
#include "ir/program.h"
#include "ir/weight_origin.h"
#include "ir/weights/weight_store.h"

namespace asyra {

// A param or state that a checkpoint holds.
struct CheckpointValue {
  std::string name;
  Type type;     // of the program: its shape is global, its axes say who has it
  Shape stored;  // what is stored of it, from 0 on: without padding
  bool is_param = false;
  // The tensor of the checkpoint that it is a part of; null: it is the whole
  // one of its name. Of states too: "c_attn.weight.m".
  std::shared_ptr<const WeightOrigin> origin = nullptr;
  // The tensor has rows where the program has columns.
  bool turned = false;

  // Return the name and shape that the tensor has in files.
  const std::string& tensor() const;
  Shape tensor_shape() const;
  // Return the value as files have it: `type` and `stored`, transposed if
  // `turned`.
  Type written_type() const;
  Shape written_shape() const;
};

// Returns all params and states of a program, by input, but sums of gradients,
// which are zeros between steps (ir/training_names.h). A state that is named
// after a param ("%w.m" of "%w") and has its shape is stored without padding as
// well, since padding is zero in both. Both are stored under the name and in
// the shape that users know (ir/weight_origin.h); parts under names of their
// own where the program has not all of a tensor.
std::vector<CheckpointValue> CheckpointValuesOf(const Program& program);

// Data of a checkpoint besides tensors.
struct CheckpointInfo {
  int64_t step = 0;  // steps that were made
  // Hash of the global program: the same on every mesh. Empty: not known, and
  // not compared.
  std::string program_hash;
  // Anything else, such as the position in the data and the seed; UTF-8.
  std::map<std::string, std::string> extra;
};

// A complete checkpoint, opened for reading.
class Checkpoint {
 public:
  // Reads the headers of all files and nothing else.
  // Errors, each naming the file: it is missing, of another size than the
  // checkpoint says, no safetensors, or without a tensor that the index has in
  // it; a folder that is no checkpoint or of a later format.
  static absl::StatusOr<Checkpoint> Open(const std::string& folder);

  const std::string& folder() const { return folder_; }
  const CheckpointInfo& info() const { return info_; }
  // Tensors of params and states by name, views of the files.
  const WeightStore& tensors() const { return tensors_; }

  // Checks that it is one of a program with these values: the same names,
  // element types and stored shapes, and the same hash where both are known.
  // Errors name the folder, the value and both sides.
  absl::Status CheckFits(absl::Span<const CheckpointValue> values,
                         std::string_view program_hash) const;

  // Reads all bytes of the tensors that are the share of rank `rank` of
  // `ranks`, about as many for each, and compares their checksums; all ranks
  // together check all. Checkpoints of before there were checksums pass. Errors
  // name the file, the tensor and both checksums.
  absl::Status CheckData(int64_t rank, int64_t ranks) const;

  // Returns the part of `value` that `device` holds on `mesh`; only its bytes
  // are read. Padding is zero. CheckFits has returned OK for `value`.
  absl::StatusOr<Tensor> Read(const CheckpointValue& value, const Mesh& mesh,
                              int64_t device) const;

 private:
  absl::Status CheckTensor(const std::string& name) const;
  bool IsUnderOwnName(const CheckpointValue& value) const;

  std::string folder_;
  CheckpointInfo info_;
  WeightStore tensors_;
  std::map<std::string, std::string> files_;  // the path of each tensor's file
  std::optional<std::map<std::string, uint32_t>> checksums_;
};

// Folders of complete checkpoints in `directory`, by step, the newest last;
// none where there is no such directory. Errors: the system's.
absl::StatusOr<std::vector<std::string>> ListCheckpoints(
    const std::string& directory);

// Returns the newest of them, or an empty string where there is none. All ranks
// of `world` call it and get what rank 0 has found; null: one rank.
absl::StatusOr<std::string> NewestCheckpoint(const std::string& directory,
                                             Communicator* world);

}  // namespace asyra
