// What the main functions of the tools have in common.
#pragma once

#include <functional>

#include "CLI/App.hpp"
#include "absl/status/status.h"

namespace asyra {

// Parses the command line and runs `tool`; returns the exit code: 0, or 1
// after one line on stderr that begins with the app's name. --help prints and
// returns 0.
int RunTool(CLI::App& app, int argc, char** argv,
            const std::function<absl::Status()>& tool);

}  // namespace asyra
