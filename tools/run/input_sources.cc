#include "tools/run/input_sources.h"

#include <filesystem>

#include "absl/algorithm/container.h"
#include "ir/support/path.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

absl::StatusOr<TestData> ReadChecked(const std::string& folder) {
  absl::StatusOr<TestData> data = ReadTestData(folder);
  if (data.ok()) return data;
  bool inputs = IsThere(std::filesystem::path(folder) / "input_0.pb");
  bool outputs = IsThere(std::filesystem::path(folder) / "output_0.pb");
  std::string hint =
      inputs && !outputs
          ? fmt::format("; --input {} runs without comparing", folder)
          : "";
  return Invalid("--check {}{}", MessageOf(data.status()), hint);
}

}  // namespace

void AddInputFlags(CLI::App& app, InputFlags* flags) {
  CLI::Option* check = app.add_option(
      "--check", flags->check,
      "folder of input_*.pb and output_*.pb to run and compare; its inputs "
      "bind the dimensions that --dim leaves open");
  CLI::Option* input =
      app.add_option(
             "--input", flags->given,
             "NAME=VALUE, once for each input; or a folder of input_*.pb. "
             "VALUE is a .npy file, a .pb file (a TensorProto), "
             "FILE.safetensors:TENSOR (without :TENSOR the one of that name, "
             "or the only one), any other file of raw little-endian bytes in "
             "the input's type and shape, or numbers: [[1,2],[3,4]] with a "
             "shape, 1,2,3 by rows in the input's, 5 for all elements (a file "
             "called 5 is ./5). Shapes bind the dimensions that --dim leaves "
             "open. Values of another type are taken if the input's type "
             "holds each of them")
          ->take_all()
          ->excludes(check);
  app.add_flag("--round-inputs", flags->round,
               "rounds floats of --input that the input's type does not hold")
      ->needs(input);
}

bool InputSources::Has(const std::string& name) const {
  return absl::c_any_of(recorded.inputs,
                        [&](const auto& one) { return one.first == name; }) ||
         absl::c_any_of(given,
                        [&](const auto& one) { return one.name == name; });
}

absl::StatusOr<InputSources> ReadInputSources(const InputFlags& flags) {
  InputSources sources;
  if (!flags.check.empty()) {
    ASYRA_ASSIGN_OR_RETURN(sources.recorded, ReadChecked(flags.check));
    return sources;
  }
  for (const std::string& argument : flags.given) {
    if (!IsFolder(argument)) continue;
    if (flags.given.size() > 1) {
      return Invalid(
          "--input {}: a folder gives all inputs, there are {} more "
          "values",
          argument, flags.given.size() - 1);
    }
    if (flags.round) {
      return Invalid("--round-inputs: those of a folder are as they are");
    }
    auto inputs = ReadTestInputs(argument);
    if (!inputs.ok()) return Annotate(inputs.status(), "--input");
    sources.recorded.inputs = *std::move(inputs);
    return sources;
  }
  ASYRA_ASSIGN_OR_RETURN(sources.given, ReadGivenInputs(flags.given));
  return sources;
}

void PassOn(const InputSources& sources, CompileFlags* flags) {
  flags->recorded = sources.recorded.inputs;
  flags->given_shapes = ShapesOf(sources.given);
  for (const GivenInput& input : sources.given) {
    flags->given_inputs.push_back(input.name);
  }
}

}  // namespace asyra
