// Ops whose results are read.
#pragma once

#include "absl/status/statusor.h"
#include "ir/program.h"

namespace asyra {

// Returns the program without ops that neither an output nor another op needs,
// for passes that replace some. Barriers stay.
absl::StatusOr<Program> WithoutDeadOps(const Program& program);

}  // namespace asyra
