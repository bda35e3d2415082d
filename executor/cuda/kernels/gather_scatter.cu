#include <algorithm>

#include "executor/cuda/kernels/gather_scatter.h"
#include "executor/cuda/kernels/number.cuh"
#include "executor/cuda/kernels/segment_sum.cuh"

namespace asyra::cuda {
namespace {

constexpr int kThreads = kSegmentThreads;
constexpr int64_t kWarps = 132 * 32;  // that scatter at the same time
constexpr int64_t kElsewhere = -1, kNone = -2;

__device__ int64_t OffsetOf(const SliceIndexing& p, const void* indices,
                            int64_t i) {
  int64_t element = 0, group = i % p.groups;
  bool here = true;
  for (int k = 0; k < p.depth; ++k) {
    const SliceIndexing::Dim& dim = p.indexed[k];
    int64_t at = IntegerAt(p.index, indices, group * p.depth + k);
    if (at < -dim.total || at >= dim.total) return kNone;
    at += (at < 0 ? dim.total : 0) - dim.start;
    here = here && at >= 0 && at < dim.size;
    element += at * dim.stride;
  }
  for (int d = p.dims; d-- > 0; i /= p.shape[d]) {
    element += i % p.shape[d] * p.strides[d];
  }
  return here ? element : kElsewhere;
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    GatherKernel(const __grid_constant__ SliceIndexing p, const void* indices,
                 const T* from, T* to) {
  int64_t count = p.count * p.slice, step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count;
       i += step) {
    int64_t offset = OffsetOf(p, indices, i / p.slice);
    to[i] = offset == kNone ? static_cast<T>(~T{0})
            : offset < 0    ? T{0}
                            : from[offset + i % p.slice];
  }
}

template <typename A>
__device__ A Combined(ScatterReduction reduction, A old, A update) {
  using Unsigned = std::conditional_t<sizeof(A) == 8, uint64_t, uint32_t>;
  switch (reduction) {
    case ScatterReduction::kReplace:
      break;
    case ScatterReduction::kAdd:
      if constexpr (std::is_integral_v<A> && !std::is_same_v<A, bool>) {
        return static_cast<A>(Unsigned(old) + Unsigned(update));
      } else {
        return static_cast<A>(old + update);
      }
    case ScatterReduction::kMul:
      if constexpr (std::is_integral_v<A> && !std::is_same_v<A, bool>) {
        return static_cast<A>(Unsigned(old) * Unsigned(update));
      } else {
        return static_cast<A>(old * update);
      }
    case ScatterReduction::kMax:
      return old < update || update != update ? update : old;
    case ScatterReduction::kMin:
      return update < old || update != update ? update : old;
  }
  return update;
}

// A warp has 32 elements of the slices whose offsets are equal modulo
// `buckets`: it alone updates them, in the order of the updates.
template <typename T, typename A>
__global__ void __launch_bounds__(kThreads)
    ScatterKernel(const __grid_constant__ SliceIndexing p,
                  ScatterReduction reduction, int64_t buckets,
                  const void* indices, const T* updates, A* to) {
  int lane = threadIdx.x % kWarp;
  int64_t warp = (int64_t{blockIdx.x} * kThreads + threadIdx.x) / kWarp;
  int64_t bucket = warp % buckets, at = warp / buckets * kWarp + lane;
  if (at - lane >= p.slice) return;  // the whole warp
  for (int64_t i = 0; i < p.count; i += kWarp) {
    int64_t offset =
        i + lane < p.count ? OffsetOf(p, indices, i + lane) : kElsewhere;
    bool is_mine = offset >= 0 && offset / p.slice % buckets == bucket;
    unsigned mine = __ballot_sync(~0u, is_mine);
    while (mine != 0) {
      int next = __ffs(static_cast<int>(mine)) - 1;
      mine &= mine - 1;
      int64_t first = __shfl_sync(~0u, static_cast<long long>(offset), next);
      if (at >= p.slice) continue;
      A& element = to[first + at];
      element = Combined(reduction, element,
                         static_cast<A>(updates[(i + next) * p.slice + at]));
    }
  }
}

// Columns that a lane has of a row, of 16 bytes of sums; 1: no vector.
template <typename A>
int SegmentVector(const SliceIndexing& p, ScatterReduction reduction) {
  constexpr int n = 16 / sizeof(A);
  bool is_one =
      reduction == ScatterReduction::kAdd && p.depth == 1 && p.dims == 2 &&
      p.shape[0] == 1 && p.strides[1] == 0 && p.groups == p.count &&
      p.indexed[0].stride == p.slice && p.count <= INT32_MAX - kSegmentStep &&
      p.slice <= kMostSegmentColumns && p.indexed[0].size <= INT32_MAX;
  return is_one && p.slice % n == 0 ? n : 1;
}

template <typename From, typename To>
__global__ void __launch_bounds__(kThreads)
    ConvertKernel(int64_t count, const From* from, To* to) {
  int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count;
       i += step) {
    to[i] = static_cast<To>(from[i]);
  }
}

template <typename From, typename To>
cudaError_t Convert(int64_t count, const From* from, To* to,
                    cudaStream_t stream) {
  if (count == 0 || static_cast<const void*>(from) == to) return cudaSuccess;
  ConvertKernel<<<BlocksFor(count, kThreads), kThreads, 0, stream>>>(count,
                                                                     from, to);
  return cudaPeekAtLastError();
}

// Put to in this type.
template <typename T>
using ScatterAs = std::conditional_t<sizeof(T) == 2, float, T>;

template <typename T>
cudaError_t Scatter(const SliceIndexing& p, ScatterReduction reduction,
                    int64_t elements, const void* x, const void* indices,
                    const void* updates, void* wide, void* to,
                    cudaStream_t stream) {
  using A = ScatterAs<T>;
  auto* into = static_cast<A*>(wide);
  cudaError_t error =
      x == nullptr ? cudaMemsetAsync(wide, 0, elements * sizeof(A), stream)
                   : Convert(elements, static_cast<const T*>(x), into, stream);
  if (error != cudaSuccess) return error;
  int64_t chunks = (p.slice + kWarp - 1) / kWarp;
  bool is_float = !std::is_integral_v<T>;
  if (is_float && p.count > 0 && SegmentVector<A>(p, reduction) > 1) {
    if constexpr (!std::is_integral_v<T>) {
      error =
          SumSegments(p, indices, static_cast<const T*>(updates), into, stream);
      if (error != cudaSuccess) return error;
    }
  } else if (p.count > 0 && chunks > 0) {
    int64_t buckets = std::max<int64_t>(1, kWarps / chunks);
    int64_t blocks = (buckets * chunks * kWarp + kThreads - 1) / kThreads;
    ScatterKernel<T, A><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
        p, reduction, buckets, indices, static_cast<const T*>(updates), into);
    error = cudaPeekAtLastError();
    if (error != cudaSuccess) return error;
  }
  return Convert(elements, into, static_cast<T*>(to), stream);
}

template <typename T>
cudaError_t Gather(const SliceIndexing& p, const void* indices,
                   const void* from, void* to, cudaStream_t stream) {
  int64_t count = p.count * p.slice;
  if (count == 0) return cudaSuccess;
  GatherKernel<T><<<BlocksFor(count, kThreads), kThreads, 0, stream>>>(
      p, indices, static_cast<const T*>(from), static_cast<T*>(to));
  return cudaPeekAtLastError();
}

}  // namespace

cudaError_t GatherSlices(const SliceIndexing& indexing, const void* indices,
                         int64_t element_bytes, const void* from, void* to,
                         cudaStream_t stream) {
  switch (element_bytes) {
    case 1:
      return Gather<uint8_t>(indexing, indices, from, to, stream);
    case 2:
      return Gather<uint16_t>(indexing, indices, from, to, stream);
    case 4:
      return Gather<uint32_t>(indexing, indices, from, to, stream);
    case 8:
      return Gather<uint64_t>(indexing, indices, from, to, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

int64_t ScatterBytes(Element element) {
  switch (element) {
    case Element::kBool:
      return 1;
    case Element::kI64:
    case Element::kF64:
      return 8;
    default:
      return 4;
  }
}

cudaError_t ScatterSlices(const SliceIndexing& indexing,
                          ScatterReduction reduction, Element element,
                          int64_t elements, const void* x, const void* indices,
                          const void* updates, void* wide, void* to,
                          cudaStream_t stream) {
  if (elements == 0) return cudaSuccess;
  return WithNumber(element, [&](auto number) {
    return Scatter<decltype(number)>(indexing, reduction, elements, x, indices,
                                     updates, wide, to, stream);
  });
}

}  // namespace asyra::cuda
