// An ONNX model compiled for two GPUs of this host and run there, a thread for
// each rank. Without two GPUs it says why it cannot run.
#include <cstdio>
#include <string>

#include "executor/cuda/device/cuda_platform.h"
#include "frontends/onnx/import.h"
#include "passes/compile.h"
#include "simulator/cost/load_machine.h"

namespace {

// Sizes of the recorded inputs, for a model with symbolic dimensions.
asyra::ImportOptions SizesOf(const asyra::TestData& data) {
  asyra::ImportOptions options;
  for (const auto& [name, tensor] : data.inputs) {
    options.shapes.emplace_back(name, tensor.shape());
  }
  return options;
}

absl::StatusOr<asyra::Program> CompileForTwo(const std::string& path,
                                             const asyra::TestData& data) {
  auto model = asyra::ImportOnnx(path, SizesOf(data));
  if (!model.ok()) return model.status();
  auto mesh = asyra::Mesh::Create({{"tp", 2}});
  if (!mesh.ok()) return mesh.status();
  auto machine = asyra::LoadMachine("h200x2");
  if (!machine.ok()) return machine.status();
  asyra::CompileOptions options;
  auto raised = asyra::Raise(*std::move(model), options);
  if (!raised.ok()) return raised.status();
  auto compiled = asyra::Compile(*raised, *mesh, *machine, options);
  if (!compiled.ok()) return compiled.status();
  return std::move(compiled->program);
}

absl::Status Run(const std::string& folder) {
  auto data = asyra::ReadTestData(folder + "/test_data_set_0");
  if (!data.ok()) return data.status();
  auto program = CompileForTwo(folder + "/model.onnx", *data);
  if (!program.ok()) return program.status();
  std::vector<asyra::Tensor> inputs;
  for (const asyra::Input& input : program->inputs) {
    asyra::Tensor tensor;  // left out: a weight, whose data the program has
    for (const auto& [name, recorded] : data->inputs) {
      if (name == program->value_name(input.value)) tensor = recorded;
    }
    inputs.push_back(tensor);
  }
  auto platform = asyra::CreateCudaPlatform();
  if (!platform.ok()) return platform.status();
  auto run = asyra::RunOnThreads(*program, inputs, **platform);
  if (!run.ok()) return run.status();
  std::printf("%s: %.1f us a step\n", program->name.c_str(),
              run->step_us.back());
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: gpus FOLDER\n");
    return 2;
  }
  absl::Status status = Run(argv[1]);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}
