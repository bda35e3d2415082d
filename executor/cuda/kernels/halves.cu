#include "executor/cuda/kernels/halves.cuh"
#include "executor/cuda/kernels/halves.h"
#include "executor/cuda/kernels/number.cuh"

namespace asyra::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    StoreKernel(const float* from, int64_t count, uint16_t* to) {
  int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count;
       i += step) {
    Halves halves = ToHalves(from[i]);
    to[i] = halves.upper;
    to[count + i] = halves.lower;
  }
}

}  // namespace

cudaError_t StoreInHalves(const float* from, int64_t count, void* to,
                          cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  StoreKernel<<<BlocksFor(count, kThreads), kThreads, 0, stream>>>(
      from, count, static_cast<uint16_t*>(to));
  return cudaGetLastError();
}

}  // namespace asyra::cuda
