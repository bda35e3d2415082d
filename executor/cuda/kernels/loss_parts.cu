// A block has one part of a row, which it goes through once. Both kernels are
// bound by memory: logits are read once, and written once by the gradient. Per
// element that is 2 or 4 bytes of bf16 beside some six instructions, one of
// them an exponential, half of what an SM issues in that time.
#include "executor/cuda/kernels/loss_parts.h"
#include "executor/cuda/kernels/number.cuh"

namespace asyra::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr int kWarps = kThreads / kWarp;
constexpr int kInFlight = 4;  // vectors that a thread loads before it uses one

__device__ inline float Power(float x) {  // e^x, 0 below the normal numbers
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x * 1.44269504f));
  return result;
}
__device__ inline double Power(double x) { return exp(x); }

__device__ inline float Larger(float a, float b) { return fmaxf(a, b); }
__device__ inline double Larger(double a, double b) { return fmax(a, b); }

// The sum of e^(x - most) of some elements, the largest of which is `most`.
template <typename S>
struct Sum {
  S most = -INFINITY, sum = 0;

  // e^(most - to), also where both are infinite.
  __device__ S Shift(S to) const {
    return most == to ? S{1} : Power(most - to);
  }
  __device__ void Add(Sum other) {
    S larger = Larger(most, other.most);
    sum = sum * Shift(larger) + other.sum * other.Shift(larger);
    most = larger;
  }
  template <int n>
  __device__ void Add(const S (&x)[n]) {
    S larger = most;
    for (int i = 0; i < n; ++i) larger = Larger(larger, x[i]);
    if (larger == -INFINITY) return;  // each adds 0
    if (larger != most) {
      sum *= Power(most - larger);
      most = larger;
    }
    for (int i = 0; i < n; ++i) sum += Power(x[i] - larger);
  }
  // Infinity - infinity is not a number.
  __device__ S Log() const { return isinf(most) ? most : most + log(sum); }
};

// Sums over all threads of a block; the result is of use in the first.
template <typename S>
__device__ Sum<S> OfBlock(Sum<S> mine) {
  __shared__ S most[kWarps], sum[kWarps];
  for (int m = kWarp / 2; m > 0; m /= 2) {
    mine.Add(Sum<S>{__shfl_xor_sync(~0u, mine.most, m),
                    __shfl_xor_sync(~0u, mine.sum, m)});
  }
  int warp = threadIdx.x / kWarp;
  if (threadIdx.x % kWarp == 0) {
    most[warp] = mine.most;
    sum[warp] = mine.sum;
  }
  __syncthreads();
  Sum<S> all{most[0], sum[0]};
  for (int w = 1; w < kWarps; ++w) all.Add(Sum<S>{most[w], sum[w]});
  return all;
}

// Goes through `count` elements at `x`: vectors that begin at multiples of 16
// bytes, and what is before and after them one by one. Calls
// visit(first, array of values, how many of them) for each.
template <typename T, typename Visit>
__device__ void ForEachVector(const T* x, int64_t count, Visit visit) {
  constexpr int n = 16 / sizeof(T);
  using Vector = Pack<T, n>;
  int64_t head = (16 - reinterpret_cast<uintptr_t>(x) % 16) % 16 / sizeof(T);
  if (head > count) head = count;
  int64_t vectors = (count - head) / n, tail = head + vectors * n;
  const auto* at = reinterpret_cast<const Vector*>(x + head);
  int64_t first = threadIdx.x;
  for (; first + (kInFlight - 1) * kThreads < vectors;
       first += kInFlight * kThreads) {
    Vector loaded[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) loaded[k] = at[first + k * kThreads];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      visit(head + (first + k * kThreads) * n, loaded[k]);
    }
  }
  for (; first < vectors; first += kThreads) {
    visit(head + first * n, Vector(at[first]));
  }
  for (int64_t i = threadIdx.x; i < head + (count - tail); i += kThreads) {
    int64_t column = i < head ? i : tail + i - head;
    visit(column, Pack<T, 1>{{x[column]}});
  }
}

// Two at once, where there is an instruction for it.
template <int n, typename S>
__device__ void Store(const S (&from)[n], Pack<__nv_bfloat16, n>* to) {
  if constexpr (n % 2 == 0) {
    auto* pairs = reinterpret_cast<__nv_bfloat162*>(to->at);
#pragma unroll
    for (int i = 0; i < n; i += 2) {
      pairs[i / 2] = __floats2bfloat162_rn(from[i], from[i + 1]);
    }
  } else {
    to->at[0] = Rounded<__nv_bfloat16>(from[0]);
  }
}
template <typename T, int n, typename S>
__device__ void Store(const S (&from)[n], Pack<T, n>* to) {
#pragma unroll
  for (int i = 0; i < n; ++i) to->at[i] = Rounded<T>(from[i]);
}

template <typename T, int n, typename S>
__device__ void Load(const Pack<T, n>& from, S (&to)[n]) {
#pragma unroll
  for (int i = 0; i < n; ++i) to[i] = Number(from.at[i]);
}

// A place in the vocabulary: of the part's first column, its label, and how
// many of its columns are no padding.
struct Place {
  int64_t label, at, real;

  __device__ Place(const LossParts& p, const void* labels) {
    int64_t first = p.start + blockIdx.x % p.parts * p.size;
    label = IntegerAt(p.label, labels, blockIdx.x / p.parts);
    at = label - first;
    real = p.classes - first;
    real = real < 0 ? 0 : real > p.size ? p.size : real;
  }
};

template <typename T, typename S>
__global__ void __launch_bounds__(kThreads)
    PartsKernel(const __grid_constant__ LossParts p, const T* logits,
                const void* labels, S* log_sums, S* targets) {
  const Place place(p, labels);
  const T* x = logits + blockIdx.x * p.size;
  Sum<S> mine;
  ForEachVector(x, place.real, [&](int64_t, const auto& pack) {
    S values[sizeof(pack) / sizeof(T)];
    Load(pack, values);
    mine.Add(values);
  });
  Sum<S> all = OfBlock(mine);
  if (threadIdx.x != 0) return;
  log_sums[blockIdx.x] = all.Log();
  bool is_here = place.at >= 0 && place.at < place.real;
  S target = is_here ? S(Number(x[place.at])) : S{0};
  if (place.label < 0 || place.label >= p.classes) target = NAN;
  targets[blockIdx.x] = place.label == p.ignored ? S{0} : target;
}

template <typename T, typename S>
__global__ void __launch_bounds__(kThreads)
    PartsGradKernel(const __grid_constant__ LossParts p, const T* logits,
                    const void* labels, const S* log_sums, const S* of_log_sums,
                    const S* of_targets, T* to) {
  const Place place(p, labels);
  const S sum = log_sums[blockIdx.x], of_sum = of_log_sums[blockIdx.x];
  const S of_target = of_targets[blockIdx.x];
  const T* x = logits + blockIdx.x * p.size;
  T* out = to + blockIdx.x * p.size;
  int64_t real = of_sum == 0 && of_target == 0 ? 0 : place.real;
  ForEachVector(x, real, [&](int64_t first, auto pack) {
    constexpr int n = sizeof(pack) / sizeof(T);
    S values[n];
    Load(pack, values);
    int64_t target = place.at - first;
#pragma unroll
    for (int i = 0; i < n; ++i) values[i] = of_sum * Power(values[i] - sum);
    if (target >= 0 && target < n) {
#pragma unroll
      for (int i = 0; i < n; ++i) values[i] += i == target ? of_target : S{0};
    }
    Store(values, &pack);
    *reinterpret_cast<decltype(pack)*>(out + first) = pack;
  });
  for (int64_t c = real + threadIdx.x; c < p.size; c += kThreads) {
    out[c] = Rounded<T>(S{0});
  }
}

// Blocks, if a grid may have as many.
cudaError_t BlocksOf(const LossParts& p, unsigned* blocks) {
  int64_t all = p.rows * p.parts;
  *blocks = static_cast<unsigned>(all);
  return all > INT32_MAX ? cudaErrorInvalidConfiguration : cudaSuccess;
}

}  // namespace

cudaError_t PartsOfLoss(const LossParts& p, const void* logits,
                        const void* labels, void* log_sums, void* targets,
                        cudaStream_t stream) {
  unsigned blocks = 0;
  cudaError_t error = BlocksOf(p, &blocks);
  if (error != cudaSuccess || blocks == 0) return error;
  return WithFloat(p.element, [&](auto number) {
    using T = decltype(number);
    using S = typename SumOf<T>::Type;
    PartsKernel<T, S><<<blocks, kThreads, 0, stream>>>(
        p, static_cast<const T*>(logits), labels, static_cast<S*>(log_sums),
        static_cast<S*>(targets));
    return cudaPeekAtLastError();
  });
}

cudaError_t GradOfLossParts(const LossParts& p, const void* logits,
                            const void* labels, const void* log_sums,
                            const void* of_log_sums, const void* of_targets,
                            void* to, cudaStream_t stream) {
  unsigned blocks = 0;
  cudaError_t error = BlocksOf(p, &blocks);
  if (error != cudaSuccess || blocks == 0) return error;
  return WithFloat(p.element, [&](auto number) {
    using T = decltype(number);
    using S = typename SumOf<T>::Type;
    PartsGradKernel<T, S><<<blocks, kThreads, 0, stream>>>(
        p, static_cast<const T*>(logits), labels,
        static_cast<const S*>(log_sums), static_cast<const S*>(of_log_sums),
        static_cast<const S*>(of_targets), static_cast<T*>(to));
    return cudaPeekAtLastError();
  });
}

}  // namespace asyra::cuda
