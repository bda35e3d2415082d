// Begins and ends asyra-run and asyra-train as ranks.
#pragma once

#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "executor/comm/choices.h"
#include "executor/launched_world.h"

namespace asyra {

// Adds --communicator and --secret.
void AddRankFlags(CLI::App& app, std::string* communicator,
                  std::string* secret_file);

// Connects this rank with the others. Errors: `checked`, for which this rank's
// flags are refused, before the reason why it cannot connect.
absl::StatusOr<LaunchedWorld> ConnectRanks(const LaunchOptions& options,
                                           const absl::Status& checked);

// Runs `body` if all ranks have the same choices and this one's flags are
// `checked`. An error ends the other ranks, and begins with this one's number.
// `world` is null where there is one process.
absl::Status RunAgreed(Communicator* world,
                       const std::vector<NamedChoice>& choices,
                       const absl::Status& checked,
                       absl::FunctionRef<absl::Status()> body);

}  // namespace asyra
