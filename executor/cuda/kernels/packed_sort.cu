// The order of choices by expert (moe_sort).
#include <algorithm>

#include "executor/cuda/kernels/number.cuh"
#include "executor/cuda/kernels/packed_rows.h"

namespace asyra::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kWarp = 32;
// Shared memory that every GPU has without an opt-in.
constexpr int64_t kSharedBytes = 48 << 10;

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

}  // namespace asyra::cuda
