// The accesses of kernels of GPUs.
#pragma once

#include <cstdint>

namespace asyra {

// Kernels that take operands where they are read and write so many bytes at
// once, from multiples of it.
inline constexpr int64_t kGpuVectorBytes = 16;

}  // namespace asyra
