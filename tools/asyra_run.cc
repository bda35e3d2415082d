// asyra-run: runs a program on this machine, and compares with recorded
// outputs.
#include <cstdio>
#include <filesystem>
#include <optional>

#include "CLI/CLI.hpp"
#include "frontends/onnx/import.h"
#include "ir/interpreter.h"
#include "ir/support/status.h"
#include "tools/compare.h"
#include "tools/compile.h"
#include "tools/run_inputs.h"
#include "tools/run_tool.h"

namespace asyra {
namespace {

struct Flags {
  CompileOptions compile;
  std::string device = "interp";
  std::string check;
  std::optional<double> rtol, atol;  // by element type unless given
  bool compare_single = false;
  uint64_t seed = 1;
};

struct Loaded {
  Program program;
  Program single;  // the same before it was sharded
};

// A program file runs as it stands, unless it is to be compiled for a mesh.
absl::StatusOr<Loaded> Load(const CompileOptions& options) {
  bool program_file =
      std::filesystem::path(options.model).extension() == ".asyra";
  ASYRA_ASSIGN_OR_RETURN(Mesh mesh, MeshOf(options));
  if (program_file && mesh.num_axes() == 0 && options.passes.empty()) {
    ASYRA_ASSIGN_OR_RETURN(Program program, LoadModel(options));
    ASYRA_RETURN_IF_ERROR(CheckRanks(options, program.mesh));
    return Loaded{program, program};
  }
  ASYRA_ASSIGN_OR_RETURN(CompileResult result, Compile(options));
  return Loaded{std::move(result.program), std::move(result.raised)};
}

// Against the program on one device, over the same inputs.
absl::Status CompareSingle(Program single, absl::Span<const Tensor> inputs,
                           const Program& program,
                           absl::Span<const Tensor> outputs) {
  if (single.stage != Stage::kGlobal) {
    return Invalid(
        "--compare-single: the program came in partitioned, what it was on one "
        "device is not known");
  }
  single.mesh = Mesh();
  ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> expected,
                         Interpret(single, inputs));
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = program.value_name(program.outputs[i].value);
    ASYRA_ASSIGN_OR_RETURN(
        Comparison comparison,
        Compare(outputs[i], expected[i], ToleranceFor(outputs[i].dtype())));
    double error = ErrorOfLargest(comparison);
    double tolerance = ShardedToleranceFor(outputs[i].dtype());
    fmt::print("output %{}: off one device by {:.3g} of its largest {:.6g}\n",
               name, error, comparison.largest);
    if (error <= tolerance) continue;
    return Invalid(
        "output %{} is off the result of one device by {:.3g} of its largest "
        "magnitude, the tolerance is {:g}",
        name, error, tolerance);
  }
  return absl::OkStatus();
}

absl::Status CheckOutputs(const Program& program,
                          const std::vector<Tensor>& outputs,
                          const NamedTensors& recorded, const Flags& flags) {
  if (outputs.size() != recorded.size()) {
    return Invalid("{} outputs are recorded, the program has {}",
                   recorded.size(), outputs.size());
  }
  int64_t wrong = 0;
  Tolerance missed;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = program.value_name(program.outputs[i].value);
    Tolerance tolerance = ToleranceFor(outputs[i].dtype());
    tolerance.relative = flags.rtol.value_or(tolerance.relative);
    tolerance.absolute = flags.atol.value_or(tolerance.absolute);
    absl::StatusOr<Comparison> comparison =
        Compare(outputs[i], recorded[i].second, tolerance);
    if (!comparison.ok()) {
      return Annotate(comparison.status(), fmt::format("output %{}", name));
    }
    fmt::print("output %{} {}{}: max abs error {:.3g}, max rel error {:.3g}\n",
               name, ToString(outputs[i].dtype()),
               ShapeToString(outputs[i].shape()), comparison->max_abs_error,
               comparison->max_rel_error);
    if (comparison->wrong == 0) continue;
    wrong += comparison->wrong;
    int64_t first = comparison->first_wrong;
    fmt::print(
        "  {} of {} elements differ, first element {}: {} is {}, "
        "recorded is {}\n",
        comparison->wrong, outputs[i].num_elements(), first, name,
        outputs[i].Get(first), recorded[i].second.Get(first));
    missed = tolerance;
  }
  if (wrong == 0) return absl::OkStatus();
  return Invalid("{} elements are beyond rtol {:g} and atol {:g}", wrong,
                 missed.relative, missed.absolute);
}

absl::Status Run(const Flags& flags) {
  ASYRA_ASSIGN_OR_RETURN(Loaded loaded, Load(flags.compile));
  const Program& program = loaded.program;
  TestData recorded;
  if (!flags.check.empty()) {
    ASYRA_ASSIGN_OR_RETURN(recorded, ReadTestData(flags.check));
  }
  ASYRA_RETURN_IF_ERROR(CheckHostMemory(program));
  ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> inputs,
                         RunInputs(program, recorded.inputs, flags.seed));
  fmt::print("{}: {} ops of stage {} on {} interpreted devices\n",
             flags.compile.model, program.ops.size(), ToString(program.stage),
             program.mesh.num_devices());
  ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> outputs,
                         Interpret(program, inputs));
  if (flags.compare_single) {
    ASYRA_RETURN_IF_ERROR(
        CompareSingle(std::move(loaded.single), inputs, program, outputs));
  }
  if (!flags.check.empty()) {
    return CheckOutputs(program, outputs, recorded.outputs, flags);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    fmt::print("output %{} {}{}: {}\n",
               program.value_name(program.outputs[i].value),
               ToString(outputs[i].dtype()), ShapeToString(outputs[i].shape()),
               Summary(outputs[i]));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace asyra

int main(int argc, char** argv) {
  asyra::Flags flags;
  CLI::App app(
      "Runs a program on recorded or random inputs: a compiled .asyra file "
      "with its .safetensors, or a model, compiled as by asyra-opt.",
      "asyra-run");
  asyra::AddModelFlag(app, &flags.compile);
  asyra::AddCompileFlags(app, &flags.compile);
  app.add_option("--device", flags.device, "what runs it")
      ->check(CLI::IsMember({"interp"}))
      ->capture_default_str();
  app.add_option("--check", flags.check,
                 "folder of input_*.pb and output_*.pb to run and compare");
  app.add_option("--rtol", flags.rtol,
                 "relative tolerance; by the output's element type: 1e-4, "
                 "f16 2e-3, bf16 2e-2");
  app.add_option("--atol", flags.atol,
                 "absolute tolerance; 1e-5, f16 2e-3, bf16 2e-2");
  app.add_flag("--compare-single", flags.compare_single,
               "also runs the program unsharded on one device and compares: "
               "errors up to 1e-5, f16 2e-3, bf16 2e-2 of an output's largest "
               "magnitude pass");
  app.add_option("--seed", flags.seed, "of random inputs")
      ->capture_default_str();
  return asyra::RunTool(app, argc, argv,
                        [&flags] { return asyra::Run(flags); });
}
