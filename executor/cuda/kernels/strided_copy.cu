#include "executor/cuda/kernels/strided_copy.h"

namespace asyra::cuda {
namespace {

constexpr int kThreads = 256;
// Copies of a thread: enough in flight to saturate the memory, with short
// blocks that soon leave their slots to more urgent kernels.
constexpr int kEach = 4;
// CTAs of an SM when slots should stay free for other kernels; they still reach
// most of the memory's bandwidth.
constexpr int kBlocksAside = 2;
constexpr int kSharedBytesOfOthers = 32 << 10;

// Copies in units of T, which divides every number of `copy`. Index counts them
// all.
template <typename T, typename Index>
__global__ void StridedCopyKernel(StridedCopy copy, Index units, const T* from,
                                  T* to) {
  auto run = static_cast<Index>(copy.run_bytes);
  auto middles = static_cast<Index>(copy.middle);
  auto outers = static_cast<Index>(copy.outer);
  Index first = Index{blockIdx.x} * (kThreads * kEach) + threadIdx.x;
  T values[kEach];
  int64_t places[kEach];
#pragma unroll
  for (int e = 0; e < kEach; ++e) {
    Index i = first + e * kThreads;
    if (i >= units) continue;
    Index at = i % run, row = i / run;
    int64_t middle = row % middles;
    row /= middles;
    int64_t outer = row % outers, block = row / outers;
    values[e] = from[block * copy.from_block + outer * copy.from_outer +
                     middle * copy.from_middle + at];
    places[e] = block * copy.to_block + outer * copy.to_outer +
                middle * copy.to_middle + at;
  }
#pragma unroll
  for (int e = 0; e < kEach; ++e) {
    if (first + e * kThreads < units) to[places[e]] = values[e];
  }
}

StridedCopy In(int64_t unit, StridedCopy copy) {
  for (int64_t* field :
       {&copy.run_bytes, &copy.from_block, &copy.from_outer, &copy.from_middle,
        &copy.to_block, &copy.to_outer, &copy.to_middle}) {
    *field /= unit;
  }
  return copy;
}

bool Divides(int64_t unit, const StridedCopy& c, const void* from,
             const void* to) {
  for (int64_t field : {c.run_bytes, c.from_block, c.from_outer, c.from_middle,
                        c.to_block, c.to_outer, c.to_middle}) {
    if (field % unit != 0) return false;
  }
  return reinterpret_cast<uintptr_t>(from) % unit == 0 &&
         reinterpret_cast<uintptr_t>(to) % unit == 0;
}

// Unused shared memory of a block, to limit an SM to kBlocksAside blocks and
// leave some for other kernels.
cudaError_t SharedBytesAside(int* bytes) {
  int device = 0, sm_bytes = 0, reserved = 0, most = 0;
  cudaError_t error = cudaGetDevice(&device);
  auto ask = [&](cudaDeviceAttr what, int* value) {
    if (error == cudaSuccess) {
      error = cudaDeviceGetAttribute(value, what, device);
    }
  };
  ask(cudaDevAttrMaxSharedMemoryPerMultiprocessor, &sm_bytes);
  ask(cudaDevAttrReservedSharedMemoryPerBlock, &reserved);
  ask(cudaDevAttrMaxSharedMemoryPerBlockOptin, &most);
  int part = (sm_bytes - kSharedBytesOfOthers) / kBlocksAside - reserved;
  *bytes = part < most ? part : most;
  return error;
}

template <typename T, typename Index>
cudaError_t Launch(const StridedCopy& copy, int64_t units, const void* from,
                   void* to, cudaStream_t stream, CopyPace pace) {
  constexpr int64_t kOfBlock = kThreads * kEach;
  auto* kernel = StridedCopyKernel<T, Index>;
  int shared_bytes = 0;
  if (pace == CopyPace::kAside) {
    cudaError_t error = SharedBytesAside(&shared_bytes);
    if (error == cudaSuccess) {
      error = cudaFuncSetAttribute(
          kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
    }
    if (error != cudaSuccess) return error;
  }
  auto grid = static_cast<unsigned>((units + kOfBlock - 1) / kOfBlock);
  kernel<<<grid, kThreads, shared_bytes, stream>>>(
      copy, static_cast<Index>(units), static_cast<const T*>(from),
      static_cast<T*>(to));
  return cudaPeekAtLastError();
}

template <typename T>
cudaError_t CopyIn(const StridedCopy& bytes, const void* from, void* to,
                   cudaStream_t stream, CopyPace pace) {
  StridedCopy copy = In(sizeof(T), bytes);
  int64_t units = copy.blocks * copy.outer * copy.middle * copy.run_bytes;
  if (units == 0) return cudaSuccess;
  // Division of 32 bits is several times faster; the last block's end fits.
  return units < INT32_MAX
             ? Launch<T, uint32_t>(copy, units, from, to, stream, pace)
             : Launch<T, uint64_t>(copy, units, from, to, stream, pace);
}

}  // namespace

bool IsPlain(const StridedCopy& c) {
  int64_t middle = c.middle * c.run_bytes, outer = c.outer * middle;
  auto is = [](int64_t count, int64_t a, int64_t b, int64_t want) {
    return count == 1 || (a == want && b == want);
  };
  return is(c.middle, c.from_middle, c.to_middle, c.run_bytes) &&
         is(c.outer, c.from_outer, c.to_outer, middle) &&
         is(c.blocks, c.from_block, c.to_block, outer);
}

cudaError_t CopyStrided(const StridedCopy& copy, const void* from, void* to,
                        cudaStream_t stream, CopyPace pace) {
  auto* copy_in = Divides(16, copy, from, to)  ? CopyIn<int4>
                  : Divides(4, copy, from, to) ? CopyIn<int>
                  : Divides(2, copy, from, to) ? CopyIn<short>
                                               : CopyIn<char>;
  return copy_in(copy, from, to, stream, pace);
}

}  // namespace asyra::cuda
