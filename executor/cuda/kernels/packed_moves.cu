// Packed rows that move between the orders of tokens and of experts, and what
// is computed on the way.
#include <type_traits>

#include "executor/cuda/kernels/number.cuh"
#include "executor/cuda/kernels/packed_rows.h"
#include "executor/cuda/kernels/row_units.cuh"

namespace asyra::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kWarp = 32;

// The row, token or choice that index i of a group's leads to; not outside.
__device__ int64_t Clamped(const PackedRouting& r, const void* indices,
                           int64_t i) {
  int64_t at = IntegerAt(r.index, indices, i);
  return at < 0 ? 0 : at >= r.group_rows ? r.group_rows - 1 : at;
}

// A warp has a row, of which it has so many loads under way at once.
constexpr int kRowsOfBlock = kThreads / kWarp, kLoads = 8;
unsigned RowBlocks(int64_t rows) {
  return static_cast<unsigned>((rows + kRowsOfBlock - 1) / kRowsOfBlock);
}
__device__ int64_t RowOfWarp() {
  return int64_t{blockIdx.x} * kRowsOfBlock + threadIdx.x / kWarp;
}

// Copies a row of `units` of T. Rows that are written do not stay in the cache,
// where tokens are that are read again.
template <typename T>
__device__ void CopyRow(const T* __restrict__ from, int64_t units,
                        T* __restrict__ to) {
  int lane = threadIdx.x % kWarp;
  int64_t first = 0;
  for (; first + kLoads * kWarp <= units; first += kLoads * kWarp) {
    T own[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) own[i] = from[first + i * kWarp + lane];
#pragma unroll
    for (int i = 0; i < kLoads; ++i)
      __stcs(to + first + i * kWarp + lane, own[i]);
  }
  for (int64_t i = first + lane; i < units; i += kWarp) __stcs(to + i, from[i]);
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    DispatchKernel(PackedRouting r, int64_t units, const void* sources,
                   const T* tokens, T* rows) {
  int64_t row = RowOfWarp(), group = row / r.group_rows;
  if (row >= r.choices) return;
  int64_t token = group * (r.group_rows / r.k) + Clamped(r, sources, row) / r.k;
  CopyRow(tokens + token * units, units, rows + row * units);
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    CollectKernel(PackedRouting r, int64_t units, const void* places,
                  const T* rows, T* to) {
  int64_t choice = RowOfWarp();
  if (choice >= r.choices) return;
  int64_t row =
      choice / r.group_rows * r.group_rows + Clamped(r, places, choice);
  CopyRow(rows + row * units, units, to + choice * units);
}

// Rows of `units` of n numbers, each times its weight.
template <typename T, int n>
__global__ void __launch_bounds__(kThreads)
    WeighedDispatchKernel(PackedRouting r, int64_t units, const void* sources,
                          const T* __restrict__ tokens,
                          const T* __restrict__ weights, T* __restrict__ rows) {
  int64_t row = RowOfWarp(), group = row / r.group_rows;
  if (row >= r.choices) return;
  int64_t source = Clamped(r, sources, row);
  int64_t token = group * (r.group_rows / r.k) + source / r.k;
  Wide<T> weight = Number(weights[group * r.group_rows + source]);
#pragma unroll 8
  for (int64_t i = threadIdx.x % kWarp; i < units; i += kWarp) {
    auto pack =
        *reinterpret_cast<const Pack<T, n>*>(tokens + (token * units + i) * n);
#pragma unroll
    for (int v = 0; v < n; ++v) {
      pack.at[v] = Rounded<T>(weight * Number(pack.at[v]));
    }
    auto* to = reinterpret_cast<Pack<T, n>*>(rows + (row * units + i) * n);
    if constexpr (sizeof(pack) == sizeof(int4)) {
      __stcs(reinterpret_cast<int4*>(to), *reinterpret_cast<int4*>(&pack));
    } else {
      *to = pack;
    }
  }
}

// The product of each choice's row with its token's.
template <typename T, int n>
__global__ void __launch_bounds__(kThreads)
    DotKernel(PackedRouting r, int64_t units, const void* places, const T* rows,
              const T* tokens, T* to) {
  int64_t choice = RowOfWarp();
  if (choice >= r.choices) return;
  int64_t row =
      choice / r.group_rows * r.group_rows + Clamped(r, places, choice);
  int64_t token = choice / r.k;
  Wide<T> sum = 0;
#pragma unroll 8
  for (int64_t i = threadIdx.x % kWarp; i < units; i += kWarp) {
    auto one =
        *reinterpret_cast<const Pack<T, n>*>(rows + (row * units + i) * n);
    auto other =
        *reinterpret_cast<const Pack<T, n>*>(tokens + (token * units + i) * n);
#pragma unroll
    for (int v = 0; v < n; ++v) sum += Number(one.at[v]) * Number(other.at[v]);
  }
  for (int d = kWarp / 2; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  if (threadIdx.x % kWarp == 0) to[choice] = Rounded<T>(sum);
}

// A block has a token.
template <typename T, int n>
__global__ void __launch_bounds__(kThreads)
    CombineKernel(PackedRouting r, int64_t units, const void* places,
                  const T* rows, const T* weights, T* to) {
  int64_t first = int64_t{blockIdx.x} * r.k;
  int64_t group = first / r.group_rows * r.group_rows;
  for (int64_t at = threadIdx.x; at < units; at += kThreads) {
    Wide<T> sum[n] = {};
#pragma unroll 4
    for (int64_t j = 0; j < r.k; ++j) {
      int64_t row = group + Clamped(r, places, first + j);
      Wide<T> weight = Number(weights[first + j]);
      auto pack =
          *reinterpret_cast<const Pack<T, n>*>(rows + (row * units + at) * n);
#pragma unroll
      for (int v = 0; v < n; ++v) sum[v] += weight * Number(pack.at[v]);
    }
    Pack<T, n> pack;
#pragma unroll
    for (int v = 0; v < n; ++v) pack.at[v] = Rounded<T>(sum[v]);
    *reinterpret_cast<Pack<T, n>*>(to + (blockIdx.x * units + at) * n) = pack;
  }
}

// Calls launch(number, vector) with a number of the type of elements and how
// many of them a thread takes at once.
template <typename Launch>
cudaError_t InVectors(Element element, int64_t hidden, Launch launch) {
  return WithFloat(element, [&](auto number) {
    constexpr int kVector = 16 / sizeof(number);
    return hidden % kVector == 0
               ? launch(number, std::integral_constant<int, kVector>())
               : launch(number, std::integral_constant<int, 1>());
  });
}

template <typename T, int n>
cudaError_t LaunchCombine(const PackedRouting& r, const void* places,
                          const void* rows, const void* weights, int64_t hidden,
                          void* to, cudaStream_t stream) {
  int64_t tokens = r.choices / r.k;
  if (!IsGrid(tokens)) return cudaErrorInvalidConfiguration;
  CombineKernel<T, n><<<static_cast<unsigned>(tokens), kThreads, 0, stream>>>(
      r, hidden / n, places, static_cast<const T*>(rows),
      static_cast<const T*>(weights), static_cast<T*>(to));
  return cudaPeekAtLastError();
}

}  // namespace

cudaError_t PackedDispatch(const PackedRouting& r, const void* sources,
                           const void* tokens, int64_t row_bytes, void* rows,
                           cudaStream_t stream) {
  if (!IsGrid(r.choices)) return cudaErrorInvalidConfiguration;
  return InUnits(row_bytes, [&](auto unit) {
    using T = decltype(unit);
    DispatchKernel<T><<<RowBlocks(r.choices), kThreads, 0, stream>>>(
        r, row_bytes / static_cast<int64_t>(sizeof(T)), sources,
        static_cast<const T*>(tokens), static_cast<T*>(rows));
    return cudaPeekAtLastError();
  });
}

cudaError_t PackedCollect(const PackedRouting& r, const void* places,
                          const void* rows, int64_t row_bytes, void* to,
                          cudaStream_t stream) {
  if (!IsGrid(r.choices)) return cudaErrorInvalidConfiguration;
  return InUnits(row_bytes, [&](auto unit) {
    using T = decltype(unit);
    CollectKernel<T><<<RowBlocks(r.choices), kThreads, 0, stream>>>(
        r, row_bytes / static_cast<int64_t>(sizeof(T)), places,
        static_cast<const T*>(rows), static_cast<T*>(to));
    return cudaPeekAtLastError();
  });
}

cudaError_t PackedCombine(const PackedRouting& r, const void* places,
                          Element element, const void* rows,
                          const void* weights, int64_t hidden, void* to,
                          cudaStream_t stream) {
  return InVectors(element, hidden, [&](auto number, auto vector) {
    return LaunchCombine<decltype(number), vector>(r, places, rows, weights,
                                                   hidden, to, stream);
  });
}

cudaError_t PackedWeighedDispatch(const PackedRouting& r, const void* sources,
                                  Element element, const void* tokens,
                                  const void* weights, int64_t hidden,
                                  void* rows, cudaStream_t stream) {
  if (!IsGrid(r.choices)) return cudaErrorInvalidConfiguration;
  return InVectors(element, hidden, [&](auto number, auto vector) {
    using T = decltype(number);
    WeighedDispatchKernel<T, vector>
        <<<RowBlocks(r.choices), kThreads, 0, stream>>>(
            r, hidden / vector, sources, static_cast<const T*>(tokens),
            static_cast<const T*>(weights), static_cast<T*>(rows));
    return cudaPeekAtLastError();
  });
}

cudaError_t PackedDot(const PackedRouting& r, const void* places,
                      Element element, const void* rows, const void* tokens,
                      int64_t hidden, void* to, cudaStream_t stream) {
  if (!IsGrid(r.choices)) return cudaErrorInvalidConfiguration;
  return InVectors(element, hidden, [&](auto number, auto vector) {
    using T = decltype(number);
    DotKernel<T, vector><<<RowBlocks(r.choices), kThreads, 0, stream>>>(
        r, hidden / vector, places, static_cast<const T*>(rows),
        static_cast<const T*>(tokens), static_cast<T*>(to));
    return cudaPeekAtLastError();
  });
}

}  // namespace asyra::cuda
