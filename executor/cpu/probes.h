// Probes of the cpu (executor/device.h).
#pragma once

#include <memory>

#include "executor/device.h"

namespace asyra {

absl::StatusOr<std::unique_ptr<Kernel>> PrepareCpuProbe(const ProbeUse& use);

}  // namespace asyra
