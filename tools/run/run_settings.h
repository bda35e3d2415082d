// The settings of asyra-run.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/statusor.h"
#include "executor/run.h"
#include "tools/compile.h"
#include "tools/run/input_sources.h"
#include "tools/run/run_gate.h"
#include "tools/run/tuning_session.h"
#include "tools/run/write_outputs.h"

namespace asyra {

struct RunSettings {
  CompileFlags compile;
  std::string device = "cpu";
  std::string communicator = "auto", secret_file;
  bool graphs = true;
  RunOptions run;
  std::string profile;
  bool json = false;
  InputFlags input;
  std::string output;  // folder, or empty
  std::string output_form = kNpy;
  std::optional<double> rtol, atol;  // by element type unless given
  bool compare_single = false;
  std::vector<std::string> against;
  std::string gate = kGateOff;
  TuningFlags tuning;
  std::shared_ptr<TuningSession> session;  // of `tuning`
  bool predict = false;                    // a machine was named
  uint64_t seed = 1;
  bool random_weights = false;
  // Flags that were given: all of them, and those of compiling.
  std::vector<std::string> given, of_compiling;
};

// Adds all flags; gives those that say how a model is compiled.
std::vector<CLI::Option*> AddRunSettings(CLI::App& app, RunSettings* settings);

// Error: a time limit by which ranks could not even meet.
absl::Status CheckTimeout(const RunSettings& settings);
// Error: other values out of range, flags that do not go together.
absl::Status CheckSettings(const RunSettings& settings);

// A program file runs as it is, unless it is to be compiled for a mesh.
absl::StatusOr<bool> RunsAsItIs(const CompileFlags& flags);

}  // namespace asyra
