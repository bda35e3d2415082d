#include "executor/cuda/kernels/number.cuh"
#include "executor/cuda/kernels/scan.h"

namespace asyra::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr int kWarps = kThreads / kWarp;

template <typename S>
__device__ S Shifted(S value, int by) {
  if constexpr (std::is_same_v<S, double>) {
    return __shfl_up_sync(~0u, value, by);
  } else {
    return __shfl_up_sync(~0u, static_cast<unsigned long long>(value), by);
  }
}

// A block has a line, and goes along it 256 elements at a time. S: double, or
// unsigned, which wraps around.
template <typename T, typename S>
__global__ void __launch_bounds__(kThreads)
    ScanKernel(Scan s, const T* x, T* to) {
  __shared__ S sums[kWarps];
  int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  int64_t line = blockIdx.x;
  int64_t first = line / s.inner * s.size * s.inner + line % s.inner;
  S before{};
  for (int64_t begin = 0; begin < s.size; begin += kThreads) {
    int64_t i = begin + threadIdx.x;
    bool is_one = i < s.size;
    int64_t at = first + (s.reverse ? s.size - 1 - i : i) * s.inner;
    S sum = is_one ? static_cast<S>(Number(x[at])) : S{};
    for (int by = 1; by < kWarp; by *= 2) {
      S other = Shifted(sum, by);
      if (lane >= by) sum += other;
    }
    if (lane == kWarp - 1) sums[warp] = sum;
    __syncthreads();
    S chunk = before, all = before;
    for (int w = 0; w < kWarps; ++w) {
      if (w < warp) chunk += sums[w];
      all += sums[w];
    }
    sum += chunk;
    S prior = Shifted(sum, 1);
    if (lane == 0) prior = chunk;
    if (is_one) {
      using W = std::conditional_t<std::is_integral_v<T>, int64_t, Wide<T>>;
      to[at] = Rounded<T>(static_cast<W>(s.exclusive ? prior : sum));
    }
    before = all;
    __syncthreads();
  }
}

}  // namespace

cudaError_t RunningSums(const Scan& s, const void* x, void* to,
                        cudaStream_t stream) {
  int64_t lines = s.outer * s.inner;
  if (lines == 0 || s.size == 0) return cudaSuccess;
  if (lines > INT32_MAX) return cudaErrorInvalidConfiguration;
  return WithNumber(s.element, [&](auto number) {
    using T = decltype(number);
    using S = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
    ScanKernel<T, S><<<static_cast<unsigned>(lines), kThreads, 0, stream>>>(
        s, static_cast<const T*>(x), static_cast<T*>(to));
    return cudaPeekAtLastError();
  });
}

}  // namespace asyra::cuda
