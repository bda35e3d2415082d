#include <algorithm>

#include "executor/cuda/kernels/moe.h"
#include "executor/cuda/kernels/number.cuh"
#include "executor/cuda/kernels/row_units.cuh"

namespace asyra::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kWarp = 32;
constexpr int kMostWarps = 32;  // of a group
// Shared memory that every GPU has without an opt-in.
constexpr int64_t kCounterBytes = 48 << 10;

__device__ int64_t ExpertOf(const Routing& r, const void* choices, int64_t at) {
  int64_t expert = IntegerAt(r.index, choices, at);
  return expert < 0 || expert >= r.total ? -1 : expert;
}

// The choices of a group that a warp has.
struct Part {
  int64_t begin, end;
};
__device__ Part PartOf(const Routing& r, int warp, int warps) {
  int64_t size = (r.per_group + warps - 1) / warps;
  size = (size + kWarp - 1) / kWarp * kWarp;
  return {min(warp * size, r.per_group), min((warp + 1) * size, r.per_group)};
}

// Calls each(at, expert, before, same) for the choices of a part, 32 at a time,
// of which those of one expert find each other: how many come before, and the
// lanes that have them.
template <typename Each>
__device__ void Walk(const Routing& r, const void* choices, int64_t first,
                     Part part, Each each) {
  int lane = threadIdx.x % kWarp;
  for (int64_t at = part.begin + lane; at - lane < part.end; at += kWarp) {
    int64_t expert = at < part.end ? ExpertOf(r, choices, first + at) : -1;
    unsigned same = __match_any_sync(~0u, static_cast<int>(expert));
    each(at, expert, __popc(same & ((1u << lane) - 1)), same);
    __syncwarp();
  }
}

// A block has a group, each of its warps a part: first they count, then those
// of a part take slots behind those of the parts before.
__global__ void RouteKernel(Routing r, const void* choices, int64_t* rows) {
  extern __shared__ int counters[];  // [warps, total]
  int warp = threadIdx.x / kWarp, warps = blockDim.x / kWarp;
  for (int64_t i = threadIdx.x; i < warps * r.total; i += blockDim.x) {
    counters[i] = 0;
  }
  __syncthreads();
  int64_t begin = int64_t{blockIdx.x} * r.per_group;
  int64_t group = blockIdx.x % (r.per_lead / r.per_group);
  int64_t first_row = begin / r.per_lead * r.experts;
  int* own = counters + warp * r.total;
  Part part = PartOf(r, warp, warps);
  Walk(r, choices, begin, part,
       [&](int64_t, int64_t expert, int before, unsigned same) {
         if (expert >= 0 && before == 0) own[expert] += __popc(same);
       });
  __syncthreads();
  for (int64_t e = threadIdx.x; e < r.total; e += blockDim.x) {
    int sum = 0;
    for (int w = 0; w < warps; ++w) {
      int count = counters[w * r.total + e];
      counters[w * r.total + e] = sum;
      sum += count;
    }
  }
  __syncthreads();
  Walk(r, choices, begin, part,
       [&](int64_t at, int64_t expert, int before, unsigned same) {
         int64_t slot = expert < 0 ? r.capacity : own[expert] + before;
         __syncwarp();
         if (expert >= 0 && before == 0) own[expert] += __popc(same);
         if (at >= part.end) return;
         int64_t here = expert - r.first;
         bool has = slot < r.capacity && here >= 0 && here < r.experts;
         rows[begin + at] =
             has ? (first_row + here) * r.slots + group * r.capacity + slot
                 : -1;
       });
}

// choices[row] becomes the choice that has it; others stay.
__global__ void __launch_bounds__(kThreads)
    InvertKernel(int64_t count, const int64_t* rows, int64_t* choices) {
  int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count;
       i += step) {
    if (rows[i] >= 0) choices[rows[i]] = i;
  }
}

// A block has a row of `units` of T: that of the token which the choice is of,
// or zeros.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    PutKernel(int64_t units, int64_t k, const int64_t* choices, const T* tokens,
              T* buffers) {
  int64_t choice = choices[blockIdx.x];
  const T* from = tokens + choice / k * units;
  T* to = buffers + int64_t{blockIdx.x} * units;
  for (int64_t at = threadIdx.x; at < units; at += kThreads) {
    to[at] = choice < 0 ? T{} : from[at];
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    TakeKernel(int64_t units, const int64_t* rows, const T* buffers, T* to) {
  int64_t row = rows[blockIdx.x];
  const T* from = buffers + row * units;
  to += int64_t{blockIdx.x} * units;
  for (int64_t at = threadIdx.x; at < units; at += kThreads) {
    to[at] = row < 0 ? T{} : from[at];
  }
}

// A block has a token.
template <typename T, int n>
__global__ void __launch_bounds__(kThreads)
    CombineKernel(int64_t units, int64_t k, const int64_t* rows,
                  const T* buffers, const T* weights, T* to) {
  rows += int64_t{blockIdx.x} * k;
  weights += int64_t{blockIdx.x} * k;
  to += int64_t{blockIdx.x} * units * n;
  for (int64_t at = threadIdx.x; at < units; at += kThreads) {
    Wide<T> sum[n] = {};
#pragma unroll 4
    for (int64_t j = 0; j < k; ++j) {
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
    *reinterpret_cast<Pack<T, n>*>(to + at * n) = pack;
  }
}

template <typename T, int n>
cudaError_t LaunchCombine(const Routing& r, const int64_t* rows,
                          const void* buffers, const void* weights,
                          int64_t hidden, void* to, cudaStream_t stream) {
  int64_t tokens = r.choices / r.k;
  if (tokens == 0 || hidden == 0) return cudaSuccess;
  if (!IsGrid(tokens)) return cudaErrorInvalidConfiguration;
  CombineKernel<T, n><<<static_cast<unsigned>(tokens), kThreads, 0, stream>>>(
      hidden / n, r.k, rows, static_cast<const T*>(buffers),
      static_cast<const T*>(weights), static_cast<T*>(to));
  return cudaPeekAtLastError();
}

}  // namespace

cudaError_t Route(const Routing& r, const void* choices, int64_t* rows,
                  cudaStream_t stream) {
  if (r.choices == 0) return cudaSuccess;
  if (!IsGrid(r.choices / r.per_group)) return cudaErrorInvalidConfiguration;
  auto bytes = static_cast<int64_t>(r.total * sizeof(int));
  int64_t warps = std::clamp<int64_t>(
      std::min(kCounterBytes / bytes, (r.per_group + kWarp - 1) / kWarp), 1,
      kMostWarps);
  RouteKernel<<<static_cast<unsigned>(r.choices / r.per_group),
                static_cast<unsigned>(warps * kWarp), warps * bytes, stream>>>(
      r, choices, rows);
  return cudaPeekAtLastError();
}

cudaError_t PutTokens(const Routing& r, const int64_t* rows, const void* tokens,
                      int64_t row_bytes, int64_t* choices, void* buffers,
                      cudaStream_t stream) {
  int64_t count = r.rows();
  if (count == 0 || row_bytes == 0) return cudaSuccess;
  if (!IsGrid(count)) return cudaErrorInvalidConfiguration;
  cudaError_t error = cudaMemsetAsync(choices, 0xff, count * 8, stream);
  if (error != cudaSuccess) return error;
  InvertKernel<<<BlocksFor(r.choices, kThreads), kThreads, 0, stream>>>(
      r.choices, rows, choices);
  return InUnits(row_bytes, [&](auto unit) {
    using T = decltype(unit);
    PutKernel<T><<<static_cast<unsigned>(count), kThreads, 0, stream>>>(
        row_bytes / static_cast<int64_t>(sizeof(T)), r.k, choices,
        static_cast<const T*>(tokens), static_cast<T*>(buffers));
    return cudaPeekAtLastError();
  });
}

cudaError_t TakeRows(const Routing& r, const int64_t* rows, const void* buffers,
                     int64_t row_bytes, void* to, cudaStream_t stream) {
  if (r.choices == 0 || row_bytes == 0) return cudaSuccess;
  if (!IsGrid(r.choices)) return cudaErrorInvalidConfiguration;
  return InUnits(row_bytes, [&](auto unit) {
    using T = decltype(unit);
    TakeKernel<T><<<static_cast<unsigned>(r.choices), kThreads, 0, stream>>>(
        row_bytes / static_cast<int64_t>(sizeof(T)), rows,
        static_cast<const T*>(buffers), static_cast<T*>(to));
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
