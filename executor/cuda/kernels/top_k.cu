#include "executor/cuda/kernels/number.cuh"
#include "executor/cuda/kernels/top_k.h"

namespace asyra::cuda {
namespace {

constexpr int kWarp = 32;
constexpr int kMostThreads = 256;

template <typename W>
__device__ bool Larger(W a, W b) {
  if (a != a || b != b) return a != a && b == b;
  return a > b;
}

template <typename W>
struct Candidate {
  W value;
  int64_t index;  // -1: none
};

// Returns whether `a` comes first.
template <typename W>
__device__ bool Before(const Candidate<W>& a, const Candidate<W>& b,
                       bool largest, bool last) {
  if (a.index < 0 || b.index < 0) return a.index >= 0;
  if (Larger(a.value, b.value)) return largest;
  if (Larger(b.value, a.value)) return !largest;
  return last ? a.index > b.index : a.index < b.index;
}

// The first of a warp, in all of its threads.
template <typename W>
__device__ Candidate<W> FirstOfWarp(Candidate<W> mine, bool largest,
                                    bool last) {
  for (int m = kWarp / 2; m > 0; m /= 2) {
    Candidate<W> other = {
        __shfl_xor_sync(~0u, mine.value, m),
        __shfl_xor_sync(~0u, static_cast<long long>(mine.index), m)};
    if (Before(other, mine, largest, last)) mine = other;
  }
  return mine;
}

// A block has a line. Each round finds the first of those that come after the
// one found before: the order is total.
template <typename T>
__global__ void TopKKernel(TopK t, const T* x, T* values, int64_t* indices) {
  using W = Wide<T>;
  __shared__ Candidate<W> found[kMostThreads / kWarp];
  int64_t line = blockIdx.x, at = line / t.inner, in = line % t.inner;
  const T* from = x + at * t.size * t.inner + in;
  Candidate<W> before = {W{}, -1};
  for (int64_t k = 0; k < t.count; ++k) {
    Candidate<W> mine = {W{}, -1};
    for (int64_t i = threadIdx.x; i < t.size; i += blockDim.x) {
      Candidate<W> next = {Number(from[i * t.inner]), i};
      if (k > 0 && !Before(before, next, t.largest, t.last)) continue;
      if (Before(next, mine, t.largest, t.last)) mine = next;
    }
    mine = FirstOfWarp(mine, t.largest, t.last);
    if (blockDim.x > kWarp) {
      __syncthreads();  // the round before has been read
      if (threadIdx.x % kWarp == 0) found[threadIdx.x / kWarp] = mine;
      __syncthreads();
      mine = found[threadIdx.x % (blockDim.x / kWarp)];
      mine = FirstOfWarp(mine, t.largest, t.last);
    }
    before = mine;
    if (threadIdx.x != 0) continue;
    int64_t to = (at * t.count + k) * t.inner + in;
    indices[to] = mine.index;
    if (values != nullptr) values[to] = Rounded<T>(mine.value);
  }
}

__device__ double SumOfWarp(double mine) {
  for (int m = kWarp / 2; m > 0; m /= 2) {
    mine += __shfl_xor_sync(~0u, mine, m);
  }
  return mine;
}

// Scores of a token in double, as its reference has them: which experts are
// chosen depends on their last bits.
template <typename T>
__device__ void Score(const Router& r, const T* logits, double* scores) {
  int lane = threadIdx.x;
  if (!r.softmax) {
    for (int64_t e = lane; e < r.experts; e += kWarp) {
      scores[e] = 1 / (1 + exp(-static_cast<double>(Number(logits[e]))));
    }
    return;
  }
  double largest = -INFINITY, sum = 0;
  for (int64_t e = lane; e < r.experts; e += kWarp) {
    largest = fmax(largest, static_cast<double>(Number(logits[e])));
  }
  for (int m = kWarp / 2; m > 0; m /= 2) {
    largest = fmax(largest, __shfl_xor_sync(~0u, largest, m));
  }
  for (int64_t e = lane; e < r.experts; e += kWarp) {
    scores[e] = exp(static_cast<double>(Number(logits[e])) - largest);
    sum += scores[e];
  }
  sum = SumOfWarp(sum);
  for (int64_t e = lane; e < r.experts; e += kWarp) scores[e] /= sum;
}

// A warp has a token; it looks only at scores that its threads wrote
// themselves.
template <typename T>
__global__ void __launch_bounds__(kWarp)
    RouterKernel(Router r, const T* logits, T* weights, int64_t* chosen) {
  extern __shared__ double scores[];
  double* best = scores + r.experts;
  int64_t token = blockIdx.x;
  Score(r, logits + token * r.experts, scores);
  Candidate<double> before = {0, -1};
  double sum = 0;
  for (int64_t k = 0; k < r.k; ++k) {
    Candidate<double> mine = {0, -1};
    for (int64_t e = threadIdx.x; e < r.experts; e += kWarp) {
      Candidate<double> next = {scores[e], e};
      if (k > 0 && !Before(before, next, true, false)) continue;
      if (Before(next, mine, true, false)) mine = next;
    }
    before = FirstOfWarp(mine, true, false);
    sum += before.value;
    if (threadIdx.x == 0) {
      best[k] = before.value;
      chosen[token * r.k + k] = before.index;
    }
  }
  __syncwarp();
  for (int64_t k = threadIdx.x; k < r.k; k += kWarp) {
    weights[token * r.k + k] =
        Rounded<T>(static_cast<Wide<T>>(best[k] / (r.normalize ? sum : 1)));
  }
}

}  // namespace

cudaError_t FindTopK(const TopK& t, const void* x, void* values,
                     int64_t* indices, cudaStream_t stream) {
  int64_t lines = t.outer * t.inner;
  if (lines == 0 || t.count == 0) return cudaSuccess;
  if (!IsGrid(lines)) return cudaErrorInvalidConfiguration;
  int threads = t.size <= 512 ? kWarp : kMostThreads;
  return WithNumber(t.element, [&](auto number) {
    using T = decltype(number);
    TopKKernel<T><<<static_cast<unsigned>(lines), threads, 0, stream>>>(
        t, static_cast<const T*>(x), static_cast<T*>(values), indices);
    return cudaPeekAtLastError();
  });
}

cudaError_t ChooseExperts(const Router& r, const void* logits, void* weights,
                          int64_t* chosen, cudaStream_t stream) {
  if (r.tokens == 0) return cudaSuccess;
  if (!IsGrid(r.tokens)) return cudaErrorInvalidConfiguration;
  size_t shared = (r.experts + r.k) * sizeof(double);
  return WithFloat(r.element, [&](auto number) {
    using T = decltype(number);
    RouterKernel<T><<<static_cast<unsigned>(r.tokens), kWarp, shared, stream>>>(
        r, static_cast<const T*>(logits), static_cast<T*>(weights), chosen);
    return cudaPeekAtLastError();
  });
}

}  // namespace asyra::cuda
