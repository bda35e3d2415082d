#include "executor/cuda/rows.h"

namespace asyra::cuda {
namespace {

constexpr int kThreads = 256;
// Enough to fill the memory system, few enough to leave room for products.
constexpr int kMaxBlocks = 132 * 8;

// In units of T, which divides every number of `copy`. Index counts them all.
template <typename T, typename Index>
__global__ void RowsKernel(RowCopy copy, const T* from, T* to) {
  auto run = static_cast<Index>(copy.run_bytes);
  auto middles = static_cast<Index>(copy.middle);
  auto outers = static_cast<Index>(copy.outer);
  Index units = static_cast<Index>(copy.blocks) * outers * middles * run;
  Index step = Index{gridDim.x} * blockDim.x;
  for (Index i = Index{blockIdx.x} * blockDim.x + threadIdx.x; i < units;
       i += step) {
    Index at = i % run, row = i / run;
    int64_t middle = row % middles;
    row /= middles;
    int64_t outer = row % outers, block = row / outers;
    to[block * copy.to_block + outer * copy.to_outer + middle * copy.to_middle +
       at] = from[block * copy.from_block + outer * copy.from_outer +
                  middle * copy.from_middle + at];
  }
}

RowCopy In(int64_t unit, RowCopy copy) {
  for (int64_t* field :
       {&copy.run_bytes, &copy.from_block, &copy.from_outer, &copy.from_middle,
        &copy.to_block, &copy.to_outer, &copy.to_middle}) {
    *field /= unit;
  }
  return copy;
}

bool Divides(int64_t unit, const RowCopy& c, const void* from, const void* to) {
  for (int64_t field : {c.run_bytes, c.from_block, c.from_outer, c.from_middle,
                        c.to_block, c.to_outer, c.to_middle}) {
    if (field % unit != 0) return false;
  }
  return reinterpret_cast<uintptr_t>(from) % unit == 0 &&
         reinterpret_cast<uintptr_t>(to) % unit == 0;
}

template <typename T>
cudaError_t Launch(const RowCopy& bytes, const void* from, void* to,
                   cudaStream_t stream) {
  RowCopy copy = In(sizeof(T), bytes);
  int64_t units = copy.blocks * copy.outer * copy.middle * copy.run_bytes;
  int64_t blocks = (units + kThreads - 1) / kThreads;
  if (blocks == 0) return cudaSuccess;
  auto grid = static_cast<unsigned>(blocks < kMaxBlocks ? blocks : kMaxBlocks);
  // Division of 32 bits is several times faster; a step beyond the end fits.
  auto* kernel =
      units < INT32_MAX ? RowsKernel<T, uint32_t> : RowsKernel<T, uint64_t>;
  kernel<<<grid, kThreads, 0, stream>>>(copy, static_cast<const T*>(from),
                                        static_cast<T*>(to));
  return cudaPeekAtLastError();
}

}  // namespace

bool IsPlain(const RowCopy& c) {
  int64_t middle = c.middle * c.run_bytes, outer = c.outer * middle;
  auto is = [](int64_t count, int64_t a, int64_t b, int64_t want) {
    return count == 1 || (a == want && b == want);
  };
  return is(c.middle, c.from_middle, c.to_middle, c.run_bytes) &&
         is(c.outer, c.from_outer, c.to_outer, middle) &&
         is(c.blocks, c.from_block, c.to_block, outer);
}

cudaError_t CopyRows(const RowCopy& copy, const void* from, void* to,
                     cudaStream_t stream) {
  if (Divides(16, copy, from, to)) return Launch<int4>(copy, from, to, stream);
  if (Divides(4, copy, from, to)) return Launch<int>(copy, from, to, stream);
  if (Divides(2, copy, from, to)) return Launch<short>(copy, from, to, stream);
  return Launch<char>(copy, from, to, stream);
}

}  // namespace asyra::cuda
