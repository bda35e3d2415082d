#include "executor/cuda/device/probe_report.cuh"
#include "executor/cuda/kernels/mask_lengths.h"
#include "executor/cuda/kernels/number.cuh"

namespace asyra::cuda {
namespace {

constexpr int kThreads = 256;

// Returns the first place from `begin` on whose element `is` accepts, or
// `size`, to all threads of the block.
template <typename T, typename Is>
__device__ int64_t FirstPlace(const T* row, int64_t begin, int64_t size,
                              Is is) {
  __shared__ unsigned long long first;
  if (threadIdx.x == 0) first = static_cast<unsigned long long>(size);
  __syncthreads();
  for (int64_t i = begin + threadIdx.x; i < size; i += kThreads) {
    if (!is(Number(row[i]))) continue;
    atomicMin(&first, static_cast<unsigned long long>(i));
    break;
  }
  __syncthreads();
  auto place = static_cast<int64_t>(first);
  __syncthreads();
  return place;
}

// A block has a row.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    LengthsKernel(MaskRows mask, const T* data, int32_t* lengths, int number,
                  ProbeResult* result) {
  int64_t at = blockIdx.x;
  const T* row = data + at * mask.size;
  int64_t length =
      FirstPlace(row, 0, mask.size, [](auto value) { return value != 1; });
  // Elements behind the ones that are not 0.
  int64_t fault =
      FirstPlace(row, length, mask.size, [](auto value) { return value != 0; });
  if (threadIdx.x != 0) return;
  lengths[at] = static_cast<int32_t>(length);
  int64_t first = at * mask.size;
  if (fault < mask.size) {
    ReportFinding(result, number, first + fault,
                  static_cast<double>(Number(row[fault])));
  } else if (length < mask.least) {
    ReportFinding(result, number, first + length, 0);
  }
}

}  // namespace

cudaError_t MaskLengths(const MaskRows& mask, const void* data,
                        int32_t* lengths, int number, ProbeResult* result,
                        cudaStream_t stream) {
  if (mask.rows == 0) return cudaSuccess;
  if (!IsGrid(mask.rows)) return cudaErrorInvalidConfiguration;
  return WithNumber(mask.element, [&](auto element) {
    using T = decltype(element);
    LengthsKernel<T><<<static_cast<unsigned>(mask.rows), kThreads, 0, stream>>>(
        mask, static_cast<const T*>(data), lengths, number, result);
    return cudaPeekAtLastError();
  });
}

}  // namespace asyra::cuda
