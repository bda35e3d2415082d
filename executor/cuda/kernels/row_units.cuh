// Rows of bytes that kernels move in units as large as divide them.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace asyra::cuda {

// Calls launch(T{}) with the largest unit that divides a row.
template <typename Launch>
cudaError_t InUnits(int64_t row_bytes, Launch launch) {
  if (row_bytes % 16 == 0) return launch(int4{});
  if (row_bytes % 4 == 0) return launch(int32_t{});
  if (row_bytes % 2 == 0) return launch(int16_t{});
  return launch(int8_t{});
}

}  // namespace asyra::cuda
