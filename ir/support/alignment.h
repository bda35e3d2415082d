// The alignments of memory. Offsets of programs and of plans keep to these, so
// that compiler, executors and costs have to agree on them.
#pragma once

#include <cstdint>

namespace asyra {

// All memory of a device, and all values in it.
inline constexpr int64_t kDeviceAlignment = 64;
// Workspaces, and scratch of plans within them: what libraries of GPUs expect.
inline constexpr int64_t kWorkspaceAlignment = 256;
// Offsets that are planned: as allocators round, and as kernels like it.
inline constexpr int64_t kArenaAlignment = 512;

}  // namespace asyra
