#include "executor/train/export_params.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <vector>

#include "executor/train/checkpoint_writer.h"
#include "ir/support/file.h"
#include "ir/support/status.h"
#include "ir/weight_origin.h"

namespace asyra {
namespace {

// A weight that is not trained, with its data.
struct Untrained {
  const Input* input;
  const Tensor* data;
};

// Returns the weights by the name of the tensor that they are parts of.
std::map<std::string, std::vector<Untrained>> UntrainedOf(const Program& step) {
  std::map<std::string, std::vector<Untrained>> weights;
  if (step.weights == nullptr) return weights;
  for (const Input& input : step.inputs) {
    const Tensor* data = step.weights->Find(step.value_name(input.value));
    bool made = input.origin != nullptr && input.origin->made;
    bool has = data != nullptr && IsFloat(data->dtype()) && !made;
    if (input.role != InputRole::kWeight || !has) continue;
    weights[UserName(step, input)].push_back({&input, data});
  }
  return weights;
}

// Adds weights that are not trained, from the data of the program.
void AddUntrained(const Program& step, WeightStore* tensors) {
  for (const auto& [name, parts] : UntrainedOf(step)) {
    if (tensors->Find(name) != nullptr) continue;
    WeightOrigin origin = OriginOf(step, *parts[0].input);
    int64_t elements = 0;
    for (const Untrained& part : parts) elements += part.data->num_elements();
    if (elements != NumElements(origin.shape)) {
      for (const Untrained& part : parts) {
        tensors->Set(step.value_name(part.input->value), *part.data);
      }
      continue;
    }
    Tensor whole = *parts[0].data;
    if (parts.size() > 1) {
      whole = Tensor(whole.dtype(), origin.shape);
      for (const Untrained& part : parts) {
        PutPart(OriginOf(step, *part.input), *part.data, &whole);
      }
    }
    tensors->Set(name, origin.transposed ? TransposedMatrix(whole) : whole);
  }
}

// Adds the other names of weights that are one.
void AddTied(const Program& step, WeightStore* tensors) {
  for (const Input& input : step.inputs) {
    if (input.origin == nullptr) continue;
    const Tensor* one = tensors->Find(input.origin->tensor);
    if (one == nullptr) continue;
    Tensor first = *one;
    for (const WeightOrigin::Tied& tied : input.origin->tied) {
      tensors->Set(tied.tensor,
                   tied.transposed ? TransposedMatrix(first) : first);
    }
  }
}

// A folder beside the file that no other run has: the parts of two runs with
// one target do not mix, and the last one's file stays.
absl::StatusOr<std::string> PartsFolder(const std::string& path,
                                        Communicator* world) {
  std::string mine = RandomName();
  if (world != nullptr) {
    ASYRA_ASSIGN_OR_RETURN(std::vector<std::string> all, world->Exchange(mine));
    mine = all[0];
  }
  return fmt::format("{}.parts-{}", path, mine);
}

// Writes a checkpoint of the params alone, in one file; on rank 0 its path.
absl::StatusOr<std::string> WriteParams(
    const std::string& directory, const Program& step, int64_t steps_done,
    absl::Span<const CheckpointValue> values, Communicator* world,
    StateSet& states) {
  std::vector<CheckpointValue> params(values.begin(), values.end());
  std::erase_if(params, [](const auto& value) { return !value.is_param; });
  CheckpointOptions options{.max_file_bytes = INT64_MAX, .what = "export"};
  ASYRA_ASSIGN_OR_RETURN(
      auto writer,
      CheckpointWriter::Create(directory, params, step.mesh, world, options));
  ASYRA_RETURN_IF_ERROR(
      writer->Save({.step = steps_done},
                   [&](const auto& value) { return states.Get(value.name); }));
  ASYRA_RETURN_IF_ERROR(writer->Finish());
  std::filesystem::path folder(writer->last_complete());
  return (folder / "model-00001-of-00001.safetensors").string();
}

// Adds the other tensors to those of `params`.
absl::Status WriteWhole(const std::string& params, const Program& step,
                        const std::string& path) {
  ASYRA_ASSIGN_OR_RETURN(std::shared_ptr<const WeightStore> written,
                         ReadWeights(params));
  WeightStore tensors = *written;
  AddUntrained(step, &tensors);
  AddTied(step, &tensors);
  return WriteWeights(tensors, path);
}

}  // namespace

absl::Status ExportModel(const std::string& path, const Program& step,
                         int64_t steps_done,
                         absl::Span<const CheckpointValue> values,
                         Communicator* world, StateSet& states) {
  ASYRA_ASSIGN_OR_RETURN(std::string directory, PartsFolder(path, world));
  absl::StatusOr<std::string> params =
      WriteParams(directory, step, steps_done, values, world, states);
  absl::Status status = params.status();
  if (world != nullptr && world->rank() != 0) return status;
  if (status.ok()) status = WriteWhole(*params, step, path);
  std::error_code error;
  std::filesystem::remove_all(directory, error);
  if (!error || !status.ok()) return status;
  return Invalid("{}: {}", directory, error.message());
}

WeightStore TensorsOfFile(const Program& step, const WeightStore& exported) {
  WeightStore tensors;
  auto add = [&](const std::string& user, const std::string& stored_as,
                 bool transposed) {
    const Tensor* tensor = exported.Find(user);
    if (tensor == nullptr) return;
    tensors.Set(stored_as.empty() ? user : stored_as,
                transposed ? TransposedMatrix(*tensor) : *tensor);
  };
  for (const Input& input : step.inputs) {
    if (input.role != InputRole::kParam) continue;
    WeightOrigin origin = OriginOf(step, input);
    add(origin.tensor, origin.stored_as, origin.transposed);
    for (const WeightOrigin::Tied& tied : origin.tied) {
      add(tied.tensor, tied.stored_as, tied.stored_transposed);
    }
  }
  return tensors;
}

}  // namespace asyra
