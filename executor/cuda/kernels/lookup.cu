#include "executor/cuda/kernels/lookup.h"
#include "executor/cuda/kernels/number.cuh"

namespace asyra::cuda {
namespace {

constexpr int kThreads = 256;

template <typename T>
__device__ T AllBits(int byte) {
  T value;
  memset(&value, byte, sizeof(T));
  return value;
}

// Looks up in units of T, of which a row has `units`.
template <typename T, typename Index>
__global__ void __launch_bounds__(kThreads)
    LookupKernel(Lookup lookup, Index units, const T* table,
                 const void* indices, T* to) {
  auto per_outer = static_cast<Index>(lookup.indices);
  Index count = static_cast<Index>(lookup.outer) * per_outer * units;
  Index step = Index{gridDim.x} * blockDim.x;
  for (Index i = Index{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += step) {
    Index at = i % units, row = i / units;
    int64_t index = IntegerAt(lookup.index, indices, row % per_outer);
    bool is_one = index >= -lookup.total && index < lookup.total;
    index += (index < 0 ? lookup.total : 0) - lookup.start;
    if (!is_one) {
      to[i] = AllBits<T>(0xff);
    } else if (index < 0 || index >= lookup.size) {
      to[i] = AllBits<T>(0);
    } else {
      int64_t from = (row / per_outer * lookup.size + index) * units + at;
      to[i] = table[from];
    }
  }
}

template <typename T>
cudaError_t Launch(const Lookup& lookup, const void* table, const void* indices,
                   void* to, cudaStream_t stream) {
  int64_t units = lookup.row_bytes / static_cast<int64_t>(sizeof(T));
  int64_t count = lookup.outer * lookup.indices * units;
  if (count == 0) return cudaSuccess;
  unsigned blocks = BlocksFor(count, kThreads);
  auto* from = static_cast<const T*>(table);
  auto* into = static_cast<T*>(to);
  if (count < INT32_MAX / 2) {
    LookupKernel<T, uint32_t><<<blocks, kThreads, 0, stream>>>(
        lookup, static_cast<uint32_t>(units), from, indices, into);
  } else {
    LookupKernel<T, uint64_t><<<blocks, kThreads, 0, stream>>>(
        lookup, static_cast<uint64_t>(units), from, indices, into);
  }
  return cudaPeekAtLastError();
}

}  // namespace

cudaError_t LookUp(const Lookup& lookup, const void* table, const void* indices,
                   void* to, cudaStream_t stream) {
  if (lookup.row_bytes % 16 == 0) {
    return Launch<int4>(lookup, table, indices, to, stream);
  }
  if (lookup.row_bytes % 4 == 0) {
    return Launch<int>(lookup, table, indices, to, stream);
  }
  if (lookup.row_bytes % 2 == 0) {
    return Launch<short>(lookup, table, indices, to, stream);
  }
  return Launch<char>(lookup, table, indices, to, stream);
}

}  // namespace asyra::cuda
