// An ONNX model compiled for two devices and run on two cpu ranks, threads of
// this process. Its outputs are compared with those recorded beside it.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include "executor/cpu/run_on_cpu.h"
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

absl::StatusOr<asyra::Program> CompileForTwo(const std::string& folder,
                                             const asyra::TestData& data) {
  auto model = asyra::ImportOnnx(folder + "/model.onnx", SizesOf(data));
  if (!model.ok()) return model.status();
  auto mesh = asyra::Mesh::Create({{"tp", 2}});
  if (!mesh.ok()) return mesh.status();
  auto machine = asyra::LoadMachine("h100x8");
  if (!machine.ok()) return machine.status();
  asyra::CompileOptions options;
  auto raised = asyra::Raise(*std::move(model), options);
  if (!raised.ok()) return raised.status();
  auto compiled = asyra::Compile(*raised, *mesh, *machine, options);
  if (!compiled.ok()) return compiled.status();
  std::printf("%s over %d devices: %.1f us a step, simulated\n",
              compiled->program.name.c_str(),
              static_cast<int>(mesh->num_devices()),
              compiled->simulated->makespan_us);
  return std::move(compiled->program);
}

// Global tensors, one for each input of the program. Weights have their data in
// the program and are left out.
std::vector<asyra::Tensor> InputsOf(const asyra::Program& program,
                                    const asyra::TestData& data) {
  std::vector<asyra::Tensor> inputs;
  for (const asyra::Input& input : program.inputs) {
    asyra::Tensor tensor;
    for (const auto& [name, recorded] : data.inputs) {
      if (name == program.value_name(input.value)) tensor = recorded;
    }
    inputs.push_back(tensor);
  }
  return inputs;
}

double LargestError(const asyra::Tensor& a, const asyra::Tensor& b) {
  double error = 0;
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    error = std::max(error, std::abs(a.Get(i) - b.Get(i)));
  }
  return error;
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: compile_and_run FOLDER\n");
    return 2;
  }
  std::string folder = argv[1];
  auto data = asyra::ReadTestData(folder + "/test_data_set_0");
  if (!data.ok()) return Fail(data.status());
  auto program = CompileForTwo(folder, *data);
  if (!program.ok()) return Fail(program.status());
  auto run = asyra::RunOnCpu(*program, InputsOf(*program, *data));
  if (!run.ok()) return Fail(run.status());
  double error = 0;
  for (size_t i = 0; i < run->outputs.size(); ++i) {
    error =
        std::max(error, LargestError(run->outputs[i], data->outputs[i].second));
  }
  std::printf("2 ranks, %d output%s, largest error %.1e\n",
              static_cast<int>(run->outputs.size()),
              run->outputs.size() == 1 ? "" : "s", error);
  return error < 1e-3 ? 0 : 1;
}
