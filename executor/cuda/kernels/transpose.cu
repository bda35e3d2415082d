#include "executor/cuda/kernels/number.cuh"
#include "executor/cuda/kernels/transpose.h"

namespace asyra::cuda {
namespace {

constexpr int kLanes = 32;
constexpr int kRows = 8;  // of a tile that a block moves at once

// Tiles of 32 n x 32 n elements, n of which a thread moves at once: n divides
// a, b and all strides.
template <typename T, int n>
__global__ void __launch_bounds__(kLanes* kRows)
    TransposeKernel(Transpose t, uint32_t a_tiles, uint32_t b_tiles,
                    const T* from, T* to) {
  constexpr int kTile = kLanes * n;
  // A row more than a multiple of the banks: columns are read from all banks.
  __shared__ T tile[kTile][kTile + (sizeof(T) < 4 ? 4 / sizeof(T) : 1)];
  uint32_t rest = blockIdx.x;
  int64_t a = int64_t{rest % a_tiles} * kTile;
  rest /= a_tiles;
  int64_t b = int64_t{rest % b_tiles} * kTile;
  rest /= b_tiles;
  for (int d = t.batches; d-- > 0;) {
    auto size = static_cast<uint32_t>(t.batch[d]);
    from += rest % size * t.from_batch[d];
    to += rest % size * t.to_batch[d];
    rest /= size;
  }
  int lane = threadIdx.x * n;
#pragma unroll
  for (int r = threadIdx.y; r < kTile; r += kRows) {
    if (b + r >= t.b || a + lane >= t.a) continue;
    auto pack = *reinterpret_cast<const Pack<T, n>*>(from + (b + r) * t.from_b +
                                                     a + lane);
    for (int i = 0; i < n; ++i) tile[r][lane + i] = pack.at[i];
  }
  __syncthreads();
#pragma unroll
  for (int r = threadIdx.y; r < kTile; r += kRows) {
    if (a + r >= t.a || b + lane >= t.b) continue;
    Pack<T, n> pack;
    for (int i = 0; i < n; ++i) pack.at[i] = tile[lane + i][r];
    *reinterpret_cast<Pack<T, n>*>(to + (a + r) * t.to_a + b + lane) = pack;
  }
}

bool Divides(int64_t n, const Transpose& t) {
  bool divides =
      t.a % n == 0 && t.b % n == 0 && t.from_b % n == 0 && t.to_a % n == 0;
  for (int d = 0; d < t.batches; ++d) {
    divides &= t.from_batch[d] % n == 0 && t.to_batch[d] % n == 0;
  }
  return divides;
}

template <typename T, int n>
cudaError_t Launch(const Transpose& t, const void* from, void* to,
                   cudaStream_t stream) {
  constexpr int64_t kTile = kLanes * n;
  int64_t a_tiles = (t.a + kTile - 1) / kTile;
  int64_t b_tiles = (t.b + kTile - 1) / kTile, blocks = a_tiles * b_tiles;
  for (int d = 0; d < t.batches; ++d) blocks *= t.batch[d];
  if (blocks == 0) return cudaSuccess;
  if (blocks > INT32_MAX) return cudaErrorInvalidConfiguration;
  TransposeKernel<T, n>
      <<<static_cast<unsigned>(blocks), dim3(kLanes, kRows), 0, stream>>>(
          t, static_cast<uint32_t>(a_tiles), static_cast<uint32_t>(b_tiles),
          static_cast<const T*>(from), static_cast<T*>(to));
  return cudaPeekAtLastError();
}

template <typename T, int n>
cudaError_t LaunchBest(const Transpose& t, const void* from, void* to,
                       cudaStream_t stream) {
  return Divides(n, t) ? Launch<T, n>(t, from, to, stream)
                       : Launch<T, 1>(t, from, to, stream);
}

}  // namespace

cudaError_t TransposeElements(const Transpose& transpose, int64_t element_bytes,
                              const void* from, void* to, cudaStream_t stream) {
  switch (element_bytes) {
    case 1:
      return LaunchBest<uint8_t, 4>(transpose, from, to, stream);
    case 2:
      return LaunchBest<uint16_t, 2>(transpose, from, to, stream);
    case 4:
      return Launch<uint32_t, 1>(transpose, from, to, stream);
    case 8:
      return Launch<uint64_t, 1>(transpose, from, to, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace asyra::cuda
