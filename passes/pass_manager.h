// Runs pipelines: the one place that verifies, times, prints and writes between
// passes.
#pragma once

#include <functional>
#include <memory>
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
using Pipeline = std::vector<PassRun>;

// Returns a pass with some of its options; the others have their defaults. The
// pass must be known and have these options, of these kinds.
PassRun MakePass(std::string_view name, const PassOptions& options = {});

// Reads "canonicalize, tile{tiles=2, dim=0}, reorder".
// Errors: an unknown pass (the known ones are listed), unknown, missing or
// ill-typed options.
absl::StatusOr<Pipeline> ParsePipeline(std::string_view text);

// Returns the text that ParsePipeline reads, without options that have their
// default.
std::string ToString(const Pipeline& pipeline);

struct PassManagerOptions {
  // Prints the program after passes whose whole name matches this regular
  // expression; nothing when empty.
  std::string print_after;
  bool print_changed = false;  // also after each pass that changed something
  // A file of this folder for each pass that changed something, numbered in the
  // order in which they ran: 0007-fuse.asyra. The folder is made.
  std::string dump_dir;
  // Prints the simulated step after each pass that leaves a local program, or
  // one of a later stage; needs PassContext::costs.
  bool simulate_each = false;
  // Verifies before the first pass and after each; otherwise after the last.
  bool verify_each = true;
  // Receives what is printed; stderr when empty.
  std::function<void(std::string_view)> print;
  // Describes the candidate that the program is, for the reader; may be empty.
  std::string candidate;
  // The number of files written so far, by all copies of the options.
  std::shared_ptr<int> dumped = std::make_shared<int>(0);
};

struct PassTiming {
  std::string_view pass;
  bool changed;
  double ms;
  std::vector<std::string> remarks;  // that the pass made
};

// Runs the passes in order on a program of the stage the first one takes, and
// verifies. Errors are prefixed with the pass's name; Internal: a pass left
// what does not verify.
absl::Status RunPasses(Program& program, const Pipeline& pipeline,
                       PassContext& context,
                       const PassManagerOptions& options = {},
                       std::vector<PassTiming>* timings = nullptr);
// The same for a pipeline as text.
absl::Status RunPasses(Program& program, std::string_view pipeline,
                       PassContext& context,
                       const PassManagerOptions& options = {},
                       std::vector<PassTiming>* timings = nullptr);

}  // namespace asyra
