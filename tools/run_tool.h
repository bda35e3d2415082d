// Shared by the main functions of the tools.
#pragma once

#include <functional>

#include "CLI/App.hpp"
#include "absl/status/status.h"

namespace asyra {

// Parses the command line and runs `tool`; returns the exit code: 0, or 1
// after one line on stderr that begins with the app's name; without required
// arguments that line is the usage. --help and --version print and return 0.
int RunTool(CLI::App& app, int argc, char** argv,
            const std::function<absl::Status()>& tool);

}  // namespace asyra
