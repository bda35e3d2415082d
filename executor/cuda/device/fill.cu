#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "executor/cuda/device/fill.h"

namespace asyra::cuda {
namespace {

__device__ uint32_t Hash(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return static_cast<uint32_t>((x ^ (x >> 31)) >> 16);
}

template <typename T, bool kInteger>
__global__ void FillKernel(T* data, int64_t count, uint64_t seed) {
  int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += step) {
    uint32_t bits = Hash(seed * 0x9e3779b97f4a7c15ull + i);
    if constexpr (kInteger) {
      data[i] = static_cast<T>(bits & 1);
    } else {
      data[i] = static_cast<T>(static_cast<float>(bits) * 0x1p-31f - 1.0f);
    }
  }
}

template <typename T, bool kInteger = false>
cudaError_t Launch(void* data, int64_t count, uint64_t seed,
                   cudaStream_t stream) {
  FillKernel<T, kInteger>
      <<<1024, 256, 0, stream>>>(static_cast<T*>(data), count, seed);
  return cudaPeekAtLastError();
}

}  // namespace

cudaError_t FillRandom(Element element, void* data, int64_t count,
                       uint64_t seed, cudaStream_t stream) {
  switch (element) {
    case Element::kBool:
      return Launch<uint8_t, true>(data, count, seed, stream);
    case Element::kI32:
      return Launch<int32_t, true>(data, count, seed, stream);
    case Element::kI64:
      return Launch<int64_t, true>(data, count, seed, stream);
    case Element::kF16:
      return Launch<__half>(data, count, seed, stream);
    case Element::kBF16:
      return Launch<__nv_bfloat16>(data, count, seed, stream);
    case Element::kF32:
      return Launch<float>(data, count, seed, stream);
    case Element::kF64:
      return Launch<double>(data, count, seed, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace asyra::cuda
