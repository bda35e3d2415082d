#include "executor/cuda/kernels/attention_merge.h"
#include "executor/cuda/kernels/number.cuh"

namespace asyra::cuda {
namespace {

constexpr int kThreads = 256;

// The weights of a row's parts, and its log sum. A part of which the row sees
// no key has the log sum inf, and no weight.
template <typename W>
struct RowWeights {
  W part[kMostMergedParts], log_sum;

  __device__ RowWeights(const AttentionParts& p, int64_t at) {
    W largest = -INFINITY, sum = 0;
#pragma unroll
    for (int i = 0; i < kMostMergedParts; ++i) {
      if (i >= p.count) break;
      part[i] = static_cast<const W*>(p.log_sums[i])[at];
      if (part[i] == INFINITY) continue;
      // NaN stays.
      largest = part[i] > largest || part[i] != part[i] ? part[i] : largest;
    }
    if (largest == -INFINITY) {
      for (int i = 0; i < p.count; ++i) part[i] = 0;
      log_sum = INFINITY;
      return;
    }
#pragma unroll
    for (int i = 0; i < kMostMergedParts; ++i) {
      if (i >= p.count) break;
      part[i] = part[i] == INFINITY ? 0 : exp(part[i] - largest);
      sum += part[i];
    }
#pragma unroll
    for (int i = 0; i < kMostMergedParts; ++i) {
      if (i >= p.count) break;
      part[i] /= sum;
    }
    log_sum = largest + log(sum);
  }
};

template <typename T, typename W, int n>
__device__ void AddPart(const void* y, int64_t at, W weight, W (&sum)[n]) {
  auto x = *reinterpret_cast<const Pack<T, n>*>(static_cast<const T*>(y) + at);
#pragma unroll
  for (int i = 0; i < n; ++i)
    sum[i] += weight * static_cast<W>(Number(x.at[i]));
}

template <typename T, typename W, int n>
__device__ void Store(const W (&sum)[n], int64_t at, void* y) {
  Pack<T, n> x;
#pragma unroll
  for (int i = 0; i < n; ++i) x.at[i] = Rounded<T>(sum[i]);
  *reinterpret_cast<Pack<T, n>*>(static_cast<T*>(y) + at) = x;
}

// A thread merges n elements of a row; n divides e.
template <typename T, int n>
__global__ void __launch_bounds__(kThreads)
    MergeKernel(AttentionParts p, void* y, void* log_sums) {
  using W = Wide<T>;
  int64_t items = p.e / n, count = p.b * p.s * p.h * items;
  int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += step) {
    int64_t row = i / items, head = row % p.h, s = row / p.h % p.s;
    int64_t sums_at = (row / p.h / p.s * p.h + head) * p.s + s, at = i * n;
    RowWeights<W> weights(p, sums_at);
    W sum[n] = {};
#pragma unroll
    for (int part = 0; part < kMostMergedParts; ++part) {
      // Without weight, NaN in y counts for nothing.
      if (part >= p.count) break;
      if (weights.part[part] == 0) continue;
      if (p.wide >> part & 1) {
        AddPart<W, W, n>(p.y[part], at, weights.part[part], sum);
      } else {
        AddPart<T, W, n>(p.y[part], at, weights.part[part], sum);
      }
    }
    if (p.wide_result) {
      Store<W, W, n>(sum, at, y);
    } else {
      Store<T, W, n>(sum, at, y);
    }
    if (i % items == 0) static_cast<W*>(log_sums)[sums_at] = weights.log_sum;
  }
}

template <typename T, int n>
cudaError_t Launch(const AttentionParts& p, void* y, void* log_sums,
                   cudaStream_t stream) {
  int64_t count = p.b * p.s * p.h * (p.e / n);
  if (count == 0) return cudaSuccess;
  MergeKernel<T, n>
      <<<BlocksFor(count, kThreads), kThreads, 0, stream>>>(p, y, log_sums);
  return cudaPeekAtLastError();
}

}  // namespace

cudaError_t MergeAttention(const AttentionParts& p, void* y, void* log_sums,
                           cudaStream_t stream) {
  return WithFloat(p.element, [&](auto number) {
    using T = decltype(number);
    constexpr int kVector = 16 / sizeof(T);
    return p.e % kVector == 0 ? Launch<T, kVector>(p, y, log_sums, stream)
                              : Launch<T, 1>(p, y, log_sums, stream);
  });
}

}  // namespace asyra::cuda
