#include "executor/train/export_params.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <vector>

#include "executor/train/checkpoint_writer.h"
#include "ir/support/status.h"
#include "ir/weight_origin.h"

namespace asyra {
namespace {

// A weight that is not trained, with its data.
struct Untrained {
  const Input* input;
  const Tensor* data;
};

// By the name of the tensor that they are parts of.
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

}  // namespace

// A checkpoint of the params alone, in one file, with the other tensors added.
absl::Status ExportModel(const std::string& path, const Program& step,
                         absl::Span<const CheckpointValue> values,
                         Communicator* world, StateSet& states) {
  std::vector<CheckpointValue> params(values.begin(), values.end());
  std::erase_if(params, [](const auto& value) { return !value.is_param; });
  std::string directory = path + ".parts";
  CheckpointOptions options{.max_file_bytes = INT64_MAX};
  ASYRA_ASSIGN_OR_RETURN(
      auto writer,
      CheckpointWriter::Create(directory, params, step.mesh, world, options));
  ASYRA_RETURN_IF_ERROR(writer->Save(
      {.step = 1}, [&](const auto& value) { return states.Get(value.name); }));
  ASYRA_RETURN_IF_ERROR(writer->Finish());
  if (world != nullptr && world->rank() != 0) return absl::OkStatus();
  std::filesystem::path file(writer->last_complete());
  file /= "model-00001-of-00001.safetensors";
  ASYRA_ASSIGN_OR_RETURN(std::shared_ptr<const WeightStore> written,
                         ReadWeights(file.string()));
  WeightStore tensors = *written;
  AddUntrained(step, &tensors);
  AddTied(step, &tensors);
  std::error_code error;
  if (tensors.size() > written->size()) {
    ASYRA_RETURN_IF_ERROR(WriteWeights(tensors, path));
  } else {
    std::filesystem::rename(file, path, error);
    if (error) return Invalid("{}: {}", path, error.message());
  }
  std::filesystem::remove_all(directory, error);
  if (error) return Invalid("{}: {}", directory, error.message());
  return absl::OkStatus();
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
