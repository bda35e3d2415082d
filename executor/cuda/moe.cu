#include "executor/cuda/moe.h"
#include "executor/cuda/number.cuh"

namespace asyra::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;

// A warp has a group: its choices are looked at 32 at a time, of which those of
// the same expert find each other.
__global__ void __launch_bounds__(kWarp)
    RouteKernel(Routing r, const void* choices, int64_t* rows) {
  extern __shared__ int taken[];  // slots of each expert
  int lane = threadIdx.x;
  for (int64_t e = lane; e < r.total; e += kWarp) taken[e] = 0;
  __syncwarp();
  int64_t begin = int64_t{blockIdx.x} * r.per_group;
  int64_t group = blockIdx.x % (r.per_lead / r.per_group);
  int64_t first_row = begin / r.per_lead * r.experts;
  for (int64_t at = lane; at - lane < r.per_group; at += kWarp) {
    int64_t expert =
        at < r.per_group ? IntegerAt(r.index, choices, begin + at) : -1;
    if (expert < 0 || expert >= r.total) expert = -1;
    unsigned same = __match_any_sync(~0u, static_cast<int>(expert));
    int before = __popc(same & ((1u << lane) - 1));
    int64_t slot = expert < 0 ? r.capacity : taken[expert] + before;
    __syncwarp();
    if (expert >= 0 && before == 0) taken[expert] += __popc(same);
    __syncwarp();
    if (at >= r.per_group) continue;
    int64_t own = expert - r.first;
    bool here = slot < r.capacity && own >= 0 && own < r.experts;
    rows[begin + at] =
        here ? (first_row + own) * r.slots + group * r.capacity + slot : -1;
  }
}

// In units of T, of which a row has `units`.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    PutKernel(int64_t count, int64_t units, int64_t k, const int64_t* rows,
              const T* tokens, T* buffers) {
  int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count;
       i += step) {
    int64_t choice = i / units, at = i % units, row = rows[choice];
    if (row >= 0) buffers[row * units + at] = tokens[choice / k * units + at];
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    TakeKernel(int64_t count, int64_t units, const int64_t* rows,
               const T* buffers, T* to) {
  int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count;
       i += step) {
    int64_t row = rows[i / units];
    to[i] = row < 0 ? T{} : buffers[row * units + i % units];
  }
}

template <typename T, int n>
__global__ void __launch_bounds__(kThreads)
    CombineKernel(int64_t count, int64_t units, int64_t k, const int64_t* rows,
                  const T* buffers, const T* weights, T* to) {
  int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count;
       i += step) {
    int64_t token = i / units, at = i % units;
    Wide<T> sum[n] = {};
    for (int64_t j = token * k; j < (token + 1) * k; ++j) {
      int64_t row = rows[j];
      if (row < 0) continue;
      Wide<T> weight = Number(weights[j]);
      auto pack = *reinterpret_cast<const Pack<T, n>*>(buffers +
                                                       (row * units + at) * n);
#pragma unroll
      for (int v = 0; v < n; ++v) sum[v] += weight * Number(pack.at[v]);
    }
    Pack<T, n> pack;
#pragma unroll
    for (int v = 0; v < n; ++v) pack.at[v] = Rounded<T>(sum[v]);
    *reinterpret_cast<Pack<T, n>*>(to + i * n) = pack;
  }
}

// Calls launch(T{}) with the largest unit that divides a row.
template <typename Launch>
cudaError_t InUnits(int64_t row_bytes, Launch launch) {
  if (row_bytes % 16 == 0) return launch(int4{});
  if (row_bytes % 4 == 0) return launch(int32_t{});
  if (row_bytes % 2 == 0) return launch(int16_t{});
  return launch(int8_t{});
}

template <typename T, int n>
cudaError_t LaunchCombine(const Routing& r, const int64_t* rows,
                          const void* buffers, const void* weights,
                          int64_t hidden, void* to, cudaStream_t stream) {
  int64_t units = hidden / n, count = r.choices / r.k * units;
  if (count == 0) return cudaSuccess;
  CombineKernel<T, n><<<BlocksFor(count, kThreads), kThreads, 0, stream>>>(
      count, units, r.k, rows, static_cast<const T*>(buffers),
      static_cast<const T*>(weights), static_cast<T*>(to));
  return cudaPeekAtLastError();
}

}  // namespace

cudaError_t Route(const Routing& r, const void* choices, int64_t* rows,
                  cudaStream_t stream) {
  if (r.choices == 0) return cudaSuccess;
  RouteKernel<<<static_cast<unsigned>(r.choices / r.per_group), kWarp,
                r.total * sizeof(int), stream>>>(r, choices, rows);
  return cudaPeekAtLastError();
}

cudaError_t PutTokens(const Routing& r, const int64_t* rows, const void* tokens,
                      int64_t row_bytes, void* buffers, cudaStream_t stream) {
  return InUnits(row_bytes, [&](auto unit) {
    using T = decltype(unit);
    int64_t units = row_bytes / static_cast<int64_t>(sizeof(T));
    int64_t count = r.choices * units;
    if (count == 0) return cudaSuccess;
    PutKernel<T><<<BlocksFor(count, kThreads), kThreads, 0, stream>>>(
        count, units, r.k, rows, static_cast<const T*>(tokens),
        static_cast<T*>(buffers));
    return cudaPeekAtLastError();
  });
}

cudaError_t TakeRows(const Routing& r, const int64_t* rows, const void* buffers,
                     int64_t row_bytes, void* to, cudaStream_t stream) {
  return InUnits(row_bytes, [&](auto unit) {
    using T = decltype(unit);
    int64_t units = row_bytes / static_cast<int64_t>(sizeof(T));
    int64_t count = r.choices * units;
    if (count == 0) return cudaSuccess;
    TakeKernel<T><<<BlocksFor(count, kThreads), kThreads, 0, stream>>>(
        count, units, rows, static_cast<const T*>(buffers),
        static_cast<T*>(to));
    return cudaPeekAtLastError();
  });
}

cudaError_t CombineRows(const Routing& r, const int64_t* rows, Element element,
                        const void* buffers, const void* weights,
                        int64_t hidden, void* to, cudaStream_t stream) {
  return WithFloat(element, [&](auto number) {
    using T = decltype(number);
    constexpr int kVector = 16 / sizeof(T);
    return hidden % kVector == 0
               ? LaunchCombine<T, kVector>(r, rows, buffers, weights, hidden,
                                           to, stream)
               : LaunchCombine<T, 1>(r, rows, buffers, weights, hidden, to,
                                     stream);
  });
}

}  // namespace asyra::cuda
