// Runs pipelines: the one place that verifies, times and prints between
// passes.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "passes/pass.h"

namespace asyra {

// One pass of a pipeline with its options.
struct PassRun {
  const PassRecord* pass;
  PassOptions options;  // complete
};

// Reads "canonicalize, tile{tiles=2, dim=0}, reorder".
// Errors: an unknown pass (the known ones are listed), unknown, missing or
// ill-typed options.
absl::StatusOr<std::vector<PassRun>> ParsePipeline(std::string_view text);

struct PassManagerOptions {
  // Prints the program after passes whose whole name matches this regular
  // expression; nothing when empty.
  std::string print_after;
  // Receives what is printed; stderr when empty.
  std::function<void(std::string_view)> print;
};

struct PassTiming {
  std::string_view pass;
  bool changed;
  double ms;
};

// Runs the passes in order on a program of the stage the first one takes;
// verifies before the first and after each. Errors are prefixed with the
// pass's name; Internal: a pass left what does not verify.
absl::Status RunPasses(Program& program, std::string_view pipeline,
                       PassContext& context,
                       const PassManagerOptions& options = {},
                       std::vector<PassTiming>* timings = nullptr);

}  // namespace asyra
