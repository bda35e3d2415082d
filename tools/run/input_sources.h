// The inputs of a run of asyra-run, wherever they come from: the folder of
// --check, files and numbers of --input, random values.
#pragma once

#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/statusor.h"
#include "frontends/onnx/import.h"
#include "tools/compile_flags.h"
#include "tools/run/given_inputs.h"

namespace asyra {

struct InputFlags {
  std::vector<std::string> given;  // of --input
  bool round = false;
  std::string check;  // the folder of --check, or empty
};

// Adds --input, --round-inputs and --check.
void AddInputFlags(CLI::App& app, InputFlags* flags);

struct InputSources {
  TestData recorded;              // of --check, or of --input FOLDER
  std::vector<GivenInput> given;  // by name

  // True if there is a value for the input of that name.
  bool Has(const std::string& name) const;
};

// Errors: those of the files, which name the flag, and a folder beside other
// values.
absl::StatusOr<InputSources> ReadInputSources(const InputFlags& flags);

// Gives the compiler what it may use: shapes bind dimensions, and recorded data
// is that of weights without.
void PassOn(const InputSources& sources, CompileFlags* flags);

}  // namespace asyra
