// The flags of asyra-run that matter for what it runs, and on what.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace asyra {

struct RunMode {
  std::string device;
  // A program file that runs unchanged, not one that is compiled here.
  bool as_it_is = false;
  bool is_program = false;  // a program file, compiled or not
  bool one_device = false;  // so far as the flags tell
  std::string communicator = "auto";
  bool repeats = false;   // several steps
  bool checks = false;    // --check
  bool predicts = false;  // times of --against, by a machine
};

// Error: a flag of `given` that changes nothing there; `compiling` are those of
// them that are flags of the compiler.
absl::Status CheckRunFlags(const RunMode& mode,
                           const std::vector<std::string>& given,
                           const std::vector<std::string>& compiling);

}  // namespace asyra
