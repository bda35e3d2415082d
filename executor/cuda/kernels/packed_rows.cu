#include <algorithm>
#include <type_traits>

#include "executor/cuda/kernels/number.cuh"
#include "executor/cuda/kernels/packed_rows.h"
#include "executor/cuda/kernels/row_units.cuh"

namespace asyra::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kWarp = 32;
// Shared memory that every GPU has without an opt-in.
constexpr int64_t kSharedBytes = 48 << 10;

// Sorting ---------------------------------------------------------------------

// Choices that a block sorts: each warp has 32 of them, and counters.
int SortWarps(const PackedRouting& r) {
  return static_cast<int>(
      std::min<int64_t>(kSharedBytes / (r.experts * 4), 32));
}
__host__ __device__ int64_t SortBlocks(const PackedRouting& r, int warps) {
  return (r.group_rows + warps * kWarp - 1) / (warps * kWarp);
}

// The choice of a thread: its expert, how many of its warp come before it, and
// the counters of its warp, which are those of the choices in the warps before.
struct Sorted {
  int64_t at;  // in its group
  int expert, before;
};

// Fills `counters` [warps, experts]; `totals` [experts], if given, gets those
// of the block.
__device__ Sorted SortBlock(const PackedRouting& r, const void* experts,
                            int64_t group, int64_t block, int* counters,
                            int* totals) {
  int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  int warps = blockDim.x / kWarp, count = static_cast<int>(r.experts);
  for (int i = threadIdx.x; i < warps * count; i += blockDim.x) counters[i] = 0;
  __syncthreads();
  Sorted own = {block * blockDim.x + threadIdx.x, -1, 0};
  if (own.at < r.group_rows) {
    int64_t expert = IntegerAt(r.index, experts, group * r.group_rows + own.at);
    own.expert =
        expert < 0 || expert >= count ? count - 1 : static_cast<int>(expert);
  }
  unsigned same = __match_any_sync(~0u, own.expert);
  own.before = __popc(same & ((1u << lane) - 1));
  if (own.expert >= 0 && own.before == 0) {
    counters[warp * count + own.expert] = __popc(same);
  }
  __syncthreads();
  for (int e = threadIdx.x; e < count; e += blockDim.x) {
    int sum = 0;
    for (int w = 0; w < warps; ++w) {
      int here = counters[w * count + e];
      counters[w * count + e] = sum;
      sum += here;
    }
    if (totals != nullptr) totals[e] = sum;
  }
  __syncthreads();
  return own;
}

// counts [groups, blocks, experts]
__global__ void CountKernel(PackedRouting r, const void* experts, int* counts) {
  extern __shared__ int counters[];
  SortBlock(
      r, experts, blockIdx.y, blockIdx.x, counters,
      counts + (int64_t{blockIdx.y} * gridDim.x + blockIdx.x) * r.experts);
}

__device__ int InclusiveSum(int x) {
  for (int d = 1; d < kWarp; d *= 2) {
    int other = __shfl_up_sync(~0u, x, d);
    if (threadIdx.x % kWarp >= d) x += other;
  }
  return x;
}

// Counts become those of the blocks before, ends the totals. A warp has an
// expert of a group.
__global__ void __launch_bounds__(kThreads)
    SumCountsKernel(PackedRouting r, int64_t groups, int64_t blocks,
                    int* counts, int32_t* ends) {
  int64_t at = int64_t{blockIdx.x} * (kThreads / kWarp) + threadIdx.x / kWarp;
  if (at >= groups * r.experts) return;
  int lane = threadIdx.x % kWarp, sum = 0;
  int* own = counts + at / r.experts * blocks * r.experts + at % r.experts;
  for (int64_t from = 0; from < blocks; from += kWarp) {
    int64_t block = from + lane;
    int here = block < blocks ? own[block * r.experts] : 0;
    int inclusive = InclusiveSum(here);
    if (block < blocks) own[block * r.experts] = sum + inclusive - here;
    sum += __shfl_sync(~0u, inclusive, kWarp - 1);
  }
  if (lane == 0) ends[at] = sum;
}

// Totals become ends. A warp has a group.
__global__ void __launch_bounds__(kThreads)
    SumTotalsKernel(PackedRouting r, int64_t groups, int32_t* ends) {
  int64_t group =
      int64_t{blockIdx.x} * (kThreads / kWarp) + threadIdx.x / kWarp;
  if (group >= groups) return;
  int lane = threadIdx.x % kWarp, sum = 0;
  int32_t* own = ends + group * r.experts;
  for (int64_t from = 0; from < r.experts; from += kWarp) {
    int64_t e = from + lane;
    int inclusive = InclusiveSum(e < r.experts ? own[e] : 0);
    if (e < r.experts) own[e] = sum + inclusive;
    sum += __shfl_sync(~0u, inclusive, kWarp - 1);
  }
}

__global__ void PlaceKernel(PackedRouting r, const void* experts,
                            const int* counts, const int32_t* ends,
                            int32_t* places, int32_t* sources) {
  extern __shared__ int counters[];
  int64_t group = blockIdx.y;
  Sorted own = SortBlock(r, experts, group, blockIdx.x, counters, nullptr);
  if (own.expert < 0) return;
  const int32_t* end = ends + group * r.experts + own.expert;
  const int* before = counts + (group * gridDim.x + blockIdx.x) * r.experts;
  int place = (own.expert > 0 ? end[-1] : 0) + before[own.expert] +
              counters[threadIdx.x / kWarp * r.experts + own.expert] +
              own.before;
  places[group * r.group_rows + own.at] = place;
  sources[group * r.group_rows + place] = static_cast<int32_t>(own.at);
}

// Moving ----------------------------------------------------------------------

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

// Computing -------------------------------------------------------------------

// The expert of a row: the first whose end lies behind it, or the last.
__device__ int64_t ExpertOf(const PackedProblem& p, const void* ends,
                            int64_t row) {
  int64_t group = row / (p.rows / p.groups), own = row % (p.rows / p.groups);
  for (int64_t e = 0; e + 1 < p.experts; ++e) {
    if (IntegerAt(p.index, ends, group * p.experts + e) > own) return e;
  }
  return p.experts - 1;
}

// The rows [begin, end) of an expert in a group.
struct Range {
  int64_t begin, end;
};
__device__ Range RowsOf(const PackedProblem& p, const void* ends, int64_t group,
                        int64_t expert) {
  int64_t begin = 0, end = 0, rows = p.rows / p.groups;
  for (int64_t e = 0; e <= expert; ++e) {
    int64_t given = e + 1 == p.experts
                        ? rows
                        : IntegerAt(p.index, ends, group * p.experts + e);
    begin = end;
    end = min(max(given, end), rows);
  }
  return {group * rows + begin, group * rows + end};
}

// A block has a row.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    MatmulKernel(PackedProblem p, const T* rows, const T* weights,
                 const void* ends, const T* residual, T* y) {
  int64_t row = blockIdx.x;
  int64_t expert = ExpertOf(p, ends, row);
  const T* x = rows + row * p.k;
  const T* w = weights + expert * p.k * p.n;
  for (int64_t n = threadIdx.x; n < p.n; n += kThreads) {
    Wide<T> sum = p.residual ? Number(residual[row * p.n + n]) : Wide<T>(0);
    for (int64_t k = 0; k < p.k; ++k) {
      sum += Number(x[k]) *
             Number(p.transpose_b ? w[n * p.k + k] : w[k * p.n + n]);
    }
    y[row * p.n + n] = Rounded<T>(sum);
  }
}

// A block has a row of a sum: of the gradient of a weight, or without x of
// rows.
template <typename T, typename Sum>
__global__ void __launch_bounds__(kThreads)
    SumKernel(PackedProblem p, const T* x, const T* dy, const void* ends,
              Sum* sums) {
  int64_t m = x == nullptr ? 1 : p.m;
  int64_t at = blockIdx.x / m, i = blockIdx.x % m;  // a sum, and its row
  int64_t lead = at / p.experts, expert = at % p.experts;
  for (int64_t n = threadIdx.x; n < p.n; n += kThreads) {
    Wide<T> sum = 0;
    for (int64_t g = 0; g < p.groups_of_lead; ++g) {
      Range range = RowsOf(p, ends, lead * p.groups_of_lead + g, expert);
      for (int64_t row = range.begin; row < range.end; ++row) {
        Wide<T> factor = x == nullptr ? Wide<T>(1) : Number(x[row * p.m + i]);
        sum += factor * Number(dy[row * p.n + n]);
      }
    }
    sums[blockIdx.x * p.n + n] = Rounded<Sum>(sum);
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    ExpandKernel(PackedProblem p, int64_t units, const T* values,
                 const void* ends, T* rows) {
  int64_t row = blockIdx.x, expert = ExpertOf(p, ends, row);
  for (int64_t i = threadIdx.x; i < units; i += kThreads) {
    rows[row * units + i] = values[expert * units + i];
  }
}

template <typename T, typename Sum>
cudaError_t LaunchSum(const PackedProblem& p, const void* x, const void* dy,
                      const void* ends, void* sums, cudaStream_t stream) {
  int64_t blocks = p.leads() * p.experts * (x == nullptr ? 1 : p.m);
  if (!IsGrid(blocks)) return cudaErrorInvalidConfiguration;
  SumKernel<T, Sum><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
      p, static_cast<const T*>(x), static_cast<const T*>(dy), ends,
      static_cast<Sum*>(sums));
  return cudaPeekAtLastError();
}

}  // namespace

int64_t PackedSortBytes(const PackedRouting& r) {
  int warps = SortWarps(r);
  if (warps == 0) return 0;
  return r.choices / r.group_rows * SortBlocks(r, warps) * r.experts * 4;
}

cudaError_t PackedSort(const PackedRouting& r, const void* experts,
                       void* workspace, int32_t* places, int32_t* sources,
                       int32_t* ends, cudaStream_t stream) {
  int warps = SortWarps(r);
  int64_t groups = r.choices / r.group_rows, blocks = SortBlocks(r, warps);
  if (groups > 65535 || !IsGrid(blocks)) return cudaErrorInvalidConfiguration;
  auto* counts = static_cast<int*>(workspace);
  dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(groups));
  int64_t bytes = warps * r.experts * 4;
  CountKernel<<<grid, warps * kWarp, bytes, stream>>>(r, experts, counts);
  auto warp_blocks = [](int64_t count) {
    return static_cast<unsigned>((count * kWarp + kThreads - 1) / kThreads);
  };
  SumCountsKernel<<<warp_blocks(groups * r.experts), kThreads, 0, stream>>>(
      r, groups, blocks, counts, ends);
  SumTotalsKernel<<<warp_blocks(groups), kThreads, 0, stream>>>(r, groups,
                                                                ends);
  PlaceKernel<<<grid, warps * kWarp, bytes, stream>>>(r, experts, counts, ends,
                                                      places, sources);
  return cudaPeekAtLastError();
}

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

cudaError_t PackedMatmul(const PackedProblem& p, const void* rows,
                         const void* weights, const void* ends,
                         const void* residual, void* y, cudaStream_t stream) {
  if (!IsGrid(p.rows)) return cudaErrorInvalidConfiguration;
  return WithFloat(p.element, [&](auto number) {
    using T = decltype(number);
    MatmulKernel<T><<<static_cast<unsigned>(p.rows), kThreads, 0, stream>>>(
        p, static_cast<const T*>(rows), static_cast<const T*>(weights), ends,
        static_cast<const T*>(residual), static_cast<T*>(y));
    return cudaPeekAtLastError();
  });
}

cudaError_t PackedWgrad(const PackedProblem& p, const void* x, const void* dy,
                        const void* ends, void* sums, cudaStream_t stream) {
  return WithFloat(p.element, [&](auto number) {
    using T = decltype(number);
    return LaunchSum<T, Wide<T>>(p, x, dy, ends, sums, stream);
  });
}

cudaError_t PackedSum(const PackedProblem& p, const void* rows,
                      const void* ends, void* sums, cudaStream_t stream) {
  return WithFloat(p.element, [&](auto number) {
    using T = decltype(number);
    return LaunchSum<T, T>(p, nullptr, rows, ends, sums, stream);
  });
}

cudaError_t PackedExpand(const PackedProblem& p, const void* values,
                         const void* ends, int64_t row_bytes, void* rows,
                         cudaStream_t stream) {
  if (!IsGrid(p.rows)) return cudaErrorInvalidConfiguration;
  return InUnits(row_bytes, [&](auto unit) {
    using T = decltype(unit);
    ExpandKernel<T><<<static_cast<unsigned>(p.rows), kThreads, 0, stream>>>(
        p, row_bytes / static_cast<int64_t>(sizeof(T)),
        static_cast<const T*>(values), ends, static_cast<T*>(rows));
    return cudaPeekAtLastError();
  });
}

}  // namespace asyra::cuda
