// Runs programs where asyra-run is told to.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/comm/communicator.h"
#include "tools/run/against.h"
#include "tools/run/run_report.h"
#include "tools/run/run_settings.h"

namespace asyra {

// In all of these, `world` is null if the ranks are threads.

// Runs on the device and fills in the result.
absl::Status RunOnDevice(const RunSettings& flags, const Program& program,
                         const std::vector<Tensor>& inputs,
                         absl::Span<const AgainstProgram> against,
                         Communicator* world, RunReport* report);

// Runs one program once, and gives its outputs.
absl::StatusOr<std::vector<Tensor>> RunOnce(const RunSettings& flags,
                                            Communicator* world,
                                            const Program& program,
                                            absl::Span<const Tensor> inputs);

// Replaces program and inputs by those that --gate keeps, if it is given.
absl::Status PassGate(const RunSettings& flags, const Program* partitioned,
                      absl::Span<const RunnerUp> runners_up,
                      absl::Span<const AgainstProgram> against,
                      Communicator* world, Program* program,
                      std::vector<Tensor>* inputs, RunReport* report);

// Fills in predicted times, where others run against the program.
absl::Status Predict(const RunSettings& flags, const Program& program,
                     absl::Span<const AgainstProgram> against,
                     RunReport* report);

}  // namespace asyra
