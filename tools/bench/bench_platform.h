// The devices that asyra-bench measures.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "executor/run.h"
#include "tools/bench/bench.h"

namespace asyra {

// Opens the devices of `options.device`. Says in `result` what they are called,
// what they run with, and how many ranks are measured. Errors: no such device;
// too few.
absl::StatusOr<std::unique_ptr<Platform>> OpenPlatform(
    const BenchOptions& options, BenchResult* result);

}  // namespace asyra
