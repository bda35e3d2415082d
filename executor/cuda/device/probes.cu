#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "executor/cuda/device/probe_report.cuh"

namespace asyra::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kMaxBlocks = 1024;

int BlocksFor(int64_t count) {
  int64_t blocks = (count + kThreads - 1) / kThreads;
  return static_cast<int>(blocks < kMaxBlocks ? blocks : kMaxBlocks);
}

template <typename T>
__global__ void FiniteKernel(const T* data, int64_t count, int probe,
                             ProbeResult* result) {
  int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += step) {
    double value = static_cast<double>(static_cast<float>(data[i]));
    if constexpr (sizeof(T) == 8) value = static_cast<double>(data[i]);
    if (!isfinite(value)) ReportFinding(result, probe, i, value);
  }
}

// Mixes a word with its place; sums of these do not depend on their order.
__device__ uint64_t Mix(uint64_t word, uint64_t place) {
  uint64_t x = word ^ (place * 0x9e3779b97f4a7c15ull);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

__global__ void ChecksumKernel(const uint8_t* data, int64_t bytes,
                               unsigned long long* sum) {
  int64_t step = int64_t{gridDim.x} * blockDim.x;
  int64_t words = (bytes + 7) / 8;
  uint64_t mine = 0;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < words;
       i += step) {
    uint64_t word = 0;
    for (int64_t b = 8 * i; b < 8 * i + 8 && b < bytes; ++b) {
      word = word << 8 | data[b];
    }
    mine += Mix(word, i + 1);
  }
  for (int lane = 16; lane > 0; lane /= 2) {
    mine += __shfl_down_sync(~0u, mine, lane);
  }
  if (threadIdx.x % 32 == 0) atomicAdd(sum, mine);
}

__global__ void CompareKernel(const uint64_t* sealed, const uint64_t* now,
                              int probe, ProbeResult* result) {
  if (*sealed != *now) ReportFinding(result, probe, -1, 0);
}

template <typename T>
cudaError_t LaunchFinite(const void* data, int64_t count, int probe,
                         ProbeResult* result, cudaStream_t stream) {
  FiniteKernel<<<BlocksFor(count), kThreads, 0, stream>>>(
      static_cast<const T*>(data), count, probe, result);
  return cudaPeekAtLastError();
}

}  // namespace

cudaError_t CheckFinite(Element element, const void* data, int64_t count,
                        int probe, ProbeResult* result, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  switch (element) {
    case Element::kF16:
      return LaunchFinite<__half>(data, count, probe, result, stream);
    case Element::kBF16:
      return LaunchFinite<__nv_bfloat16>(data, count, probe, result, stream);
    case Element::kF32:
      return LaunchFinite<float>(data, count, probe, result, stream);
    case Element::kF64:
      return LaunchFinite<double>(data, count, probe, result, stream);
    default:
      return cudaSuccess;
  }
}

cudaError_t AddChecksum(const void* data, int64_t bytes, uint64_t* sum,
                        cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  ChecksumKernel<<<BlocksFor((bytes + 7) / 8), kThreads, 0, stream>>>(
      static_cast<const uint8_t*>(data), bytes,
      reinterpret_cast<unsigned long long*>(sum));
  return cudaPeekAtLastError();
}

cudaError_t CompareChecksums(const uint64_t* sealed, const uint64_t* now,
                             int probe, ProbeResult* result,
                             cudaStream_t stream) {
  CompareKernel<<<1, 1, 0, stream>>>(sealed, now, probe, result);
  return cudaPeekAtLastError();
}

}  // namespace asyra::cuda
