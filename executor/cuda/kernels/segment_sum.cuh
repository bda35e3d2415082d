// Sums of rows by their index, as gradients of tables are. A block has the rows
// of the table whose number is equal modulo the number of blocks. It reads all
// indices once, lists the updates of its rows in shared memory, and then has
// the columns of a row added up by one warp, in the order of the updates: no
// atomics, and the same bits each time.
#pragma once

#include <algorithm>

#include "executor/cuda/kernels/gather_scatter.h"
#include "executor/cuda/kernels/number.cuh"

namespace asyra::cuda {

constexpr int kWarp = 32;
constexpr int kSegmentThreads = 256;
constexpr int kSegmentWarps = kSegmentThreads / kWarp;
constexpr int kWindows = 8;  // indices that a thread loads before it uses one
constexpr int kSegmentStep = kWindows * kSegmentThreads;  // that a block loads
constexpr int kMostListed = 2 * kSegmentStep;
// Columns of a row, so that a block's tasks can be counted.
constexpr int64_t kMostSegmentColumns = 1 << 20;
constexpr int kInFlight = 8;  // updates that a lane loads before it adds one
// Blocks that run at the same time on a large GPU.
constexpr unsigned kMostSegmentBlocks = 512;

// The updates of a block's rows that were found and not added yet.
struct SegmentList {
  int row[kMostListed], update[kMostListed];
  int count[2][kWindows * kSegmentWarps];  // found by window and warp
};

// Returns the row here that update i goes to; -1: none.
__device__ inline int SegmentOf(const SliceIndexing& p, const void* indices,
                                int64_t i) {
  if (i >= p.count) return -1;
  const SliceIndexing::Dim& dim = p.indexed[0];
  int64_t row = IntegerAt(p.index, indices, i);
  if (row >= dim.total) return -1;
  row += (row < 0 ? dim.total : 0) - dim.start;
  return row >= 0 && row < dim.size ? static_cast<int>(row) : -1;
}

// Sums the 64 counts of a step; `before` gets the sums before entry 2 lane and
// 2 lane + 1 of each lane.
__device__ inline int CountsBefore(const int* counts, int (&before)[2]) {
  static_assert(kWindows * kSegmentWarps == 2 * kWarp);
  int lane = threadIdx.x % kWarp;
  int first = counts[2 * lane], sum = first + counts[2 * lane + 1];
  int own = sum;
#pragma unroll
  for (int d = 1; d < kWarp; d *= 2) {
    int left = __shfl_up_sync(~0u, sum, d);
    if (lane >= d) sum += left;
  }
  before[0] = sum - own;
  before[1] = before[0] + first;
  return __shfl_sync(~0u, sum, kWarp - 1);
}

// Lists what of a step goes to rows of this block, behind `listed`; gives how
// many there are then. `phase` is another one in each call.
__device__ inline int ListStep(const int (&rows)[kWindows], int64_t begin,
                               unsigned blocks, int phase, int listed,
                               SegmentList* list) {
  int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  unsigned mine[kWindows];
  int* counts = list->count[phase];
#pragma unroll
  for (int w = 0; w < kWindows; ++w) {
    bool is_mine = rows[w] >= 0 && (static_cast<unsigned>(rows[w]) &
                                    (blocks - 1)) == blockIdx.x;
    mine[w] = __ballot_sync(~0u, is_mine);
    if (lane == 0) counts[w * kSegmentWarps + warp] = __popc(mine[w]);
  }
  __syncthreads();
  int before[2];
  int found = CountsBefore(counts, before);
#pragma unroll
  for (int w = 0; w < kWindows; ++w) {
    int entry = w * kSegmentWarps + warp;
    int even = __shfl_sync(~0u, before[0], entry / 2);
    int odd = __shfl_sync(~0u, before[1], entry / 2);
    if ((mine[w] >> lane & 1) == 0) continue;
    int at = listed + (entry % 2 == 0 ? even : odd) +
             __popc(mine[w] & ((1u << lane) - 1));
    list->row[at] = rows[w];
    list->update[at] =
        static_cast<int>(begin) + w * kSegmentThreads + threadIdx.x;
  }
  return listed + found;
}

// Adds the listed updates from `first` on whose bits are set, at their columns
// `at`, in their order.
template <typename T, typename A, int n>
__device__ void AddListed(const SegmentList& list, int first, unsigned bits,
                          const T* updates, int64_t slice, Pack<A, n>* sum) {
  using From = Pack<T, n>;
  while (bits != 0) {
    int count = __popc(bits);
    From loaded[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      if (k >= count) continue;
      int update = list.update[first + __ffs(static_cast<int>(bits)) - 1];
      bits &= bits - 1;
      loaded[k] = *reinterpret_cast<const From*>(updates + update * slice);
    }
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      if (k >= count) continue;
#pragma unroll
      for (int e = 0; e < n; ++e) {
        sum->at[e] += static_cast<A>(loaded[k].at[e]);
      }
    }
  }
}

// Returns whether entry k of the list is the first one of its row.
__device__ inline bool IsFirstOfRow(const SegmentList& list, int k) {
  int lane = threadIdx.x % kWarp, row = list.row[k];
  for (int e = 0; e < k; e += kWarp) {
    if (__any_sync(~0u, e + lane < k && list.row[e + lane] == row)) {
      return false;
    }
  }
  return true;
}

// Adds all that is listed. A warp has 32 vectors of a row at a time.
template <typename T, typename A, int n>
__device__ void AddAllListed(const SegmentList& list, int listed, int64_t slice,
                             const T* updates, A* to) {
  int lane = threadIdx.x % kWarp;
  int chunks = static_cast<int>((slice + kWarp * n - 1) / (kWarp * n));
  for (int task = threadIdx.x / kWarp; task < listed * chunks;
       task += kSegmentWarps) {
    int k = task / chunks;
    if (!IsFirstOfRow(list, k)) continue;
    int row = list.row[k];
    int64_t at = (int64_t{task % chunks} * kWarp + lane) * n;
    bool has_columns = at < slice;
    auto* sums = reinterpret_cast<Pack<A, n>*>(to + row * slice + at);
    Pack<A, n> sum;
    if (has_columns) sum = *sums;
    for (int e = k / kWarp * kWarp; e < listed; e += kWarp) {
      unsigned same =
          __ballot_sync(~0u, e + lane < listed && list.row[e + lane] == row);
      if (!has_columns) continue;
      AddListed(list, e, same, updates + at, slice, &sum);
    }
    if (has_columns) *sums = sum;
  }
}

// `gridDim.x` is a power of two.
template <typename T, typename A, int n>
__global__ void __launch_bounds__(kSegmentThreads, 4)
    SegmentSumKernel(const __grid_constant__ SliceIndexing p,
                     const void* indices, const T* updates, A* to) {
  __shared__ SegmentList list;
  int listed = 0, phase = 0;
  auto add = [&] {
    __syncthreads();
    AddAllListed<T, A, n>(list, listed, p.slice, updates, to);
    __syncthreads();
    listed = 0;
  };
  for (int64_t i = 0; i < p.count; i += kSegmentStep) {
    int rows[kWindows];
#pragma unroll
    for (int w = 0; w < kWindows; ++w) {
      rows[w] = SegmentOf(p, indices, i + w * kSegmentThreads + threadIdx.x);
    }
    if (listed > kMostListed - kSegmentStep) add();
    listed = ListStep(rows, i, gridDim.x, phase, listed, &list);
    phase ^= 1;
  }
  add();
}

// `to` has first values; p.slice is a multiple of 16 bytes of them.
template <typename T, typename A>
cudaError_t SumSegments(const SliceIndexing& p, const void* indices,
                        const T* updates, A* to, cudaStream_t stream) {
  constexpr int n = 16 / sizeof(A);
  unsigned blocks = 1;
  while (blocks < kMostSegmentBlocks && blocks < p.indexed[0].size) blocks *= 2;
  SegmentSumKernel<T, A, n>
      <<<blocks, kSegmentThreads, 0, stream>>>(p, indices, updates, to);
  return cudaPeekAtLastError();
}

}  // namespace asyra::cuda
