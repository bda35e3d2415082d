// Bound by memory: each value is read and written once, 28 bytes for a
// parameter in f32.
#include "executor/cuda/kernels/halves.cuh"
#include "executor/cuda/kernels/multi_adamw.h"
#include "executor/cuda/kernels/number.cuh"
#include "executor/cuda/kernels/tensor_of_block.cuh"

namespace asyra::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kRounds = 4;  // vectors of each value that a thread updates

template <typename T>
constexpr int kVector = 16 / sizeof(T);
template <typename T>
constexpr int64_t kPiece = int64_t{kThreads} * kRounds* kVector<T>;

struct Tensors {
  int count = 0;
  // Of each, and the number of all blocks after the last.
  int first_block[kMostAdamWTensors + 1];
  AdamWTensor at[kMostAdamWTensors];
};

// In f32 within two units in the last place. Exact ones are many instructions:
// a GPU that computes for long lowers its clock, and then they, not memory, set
// the pace (3.4 instead of 4.1 TB/s on an H200 at 1450 MHz).
__device__ inline float Root(float x) {
  float root;
  asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(x));
  return root;
}
__device__ inline float Quotient(float a, float b) { return __fdividef(a, b); }
__device__ inline double Root(double x) { return sqrt(x); }
__device__ inline double Quotient(double a, double b) { return a / b; }

// What is the same for all elements, in the type that they are computed in.
template <typename W>
struct Step {
  W beta1, beta2, rest1, rest2, eps, decay, rate, scale;
  // 1 / (1 - beta^step)
  W correction1, correction2;

  __device__ Step(const AdamWNumbers& n, const AdamWScalars& s)
      : beta1(static_cast<W>(n.beta1)),
        beta2(static_cast<W>(n.beta2)),
        rest1(static_cast<W>(1 - n.beta1)),
        rest2(static_cast<W>(1 - n.beta2)),
        eps(static_cast<W>(n.eps)),
        decay(static_cast<W>(n.decay)),
        rate(LoadElement<W>(s.rate, n.rate, 0)),
        scale(s.scale == nullptr ? 1 : LoadElement<W>(s.scale, n.scale, 0)) {
    auto step = static_cast<W>(LoadInteger(s.step, n.step, 0));
    // Without what 1 - beta^step would lose near 1.
    correction1 = -1 / expm1(step * static_cast<W>(n.log_beta1));
    correction2 = -1 / expm1(step * static_cast<W>(n.log_beta2));
  }
  __device__ void Update(W grad, W* param, W* m, W* v) const {
    W slope = grad * scale;
    *m = *m * beta1 + rest1 * slope;
    *v = *v * beta2 + rest2 * slope * slope;
    W change = Quotient(*m * correction1, Root(*v * correction2) + eps);
    *param -= rate * (change + decay * *param);
  }
};

// n elements of a param at i, plain.
template <int n, typename T>
struct Plain {
  static __device__ Pack<T, n> Load(const void* from, int64_t, int64_t i) {
    return *reinterpret_cast<const Pack<T, n>*>(static_cast<const T*>(from) +
                                                i);
  }
  static __device__ void Store(const Pack<T, n>& x, void* to, int64_t,
                               int64_t i) {
    *reinterpret_cast<Pack<T, n>*>(static_cast<T*>(to) + i) = x;
  }
};

// The same of `count` that are stored in halves.
template <int n, typename T>
struct InHalves {
  using Part = Pack<uint16_t, n>;

  static __device__ Pack<T, n> Load(const void* from, int64_t count,
                                    int64_t i) {
    const uint16_t* upper = static_cast<const uint16_t*>(from) + i;
    Part high = *reinterpret_cast<const Part*>(upper);
    Part low = *reinterpret_cast<const Part*>(upper + count);
    Pack<T, n> x;
#pragma unroll
    for (int k = 0; k < n; ++k) x.at[k] = FromHalves({high.at[k], low.at[k]});
    return x;
  }
  static __device__ void Store(const Pack<T, n>& x, void* to, int64_t count,
                               int64_t i) {
    Part high, low;
#pragma unroll
    for (int k = 0; k < n; ++k) {
      Halves halves = ToHalves(x.at[k]);
      high.at[k] = halves.upper;
      low.at[k] = halves.lower;
    }
    uint16_t* upper = static_cast<uint16_t*>(to) + i;
    *reinterpret_cast<Part*>(upper) = high;
    *reinterpret_cast<Part*>(upper + count) = low;
  }
};

template <typename T>
struct Place {
  const void* param;
  const T *m, *v;
  void* new_param;
  T *new_m, *new_v;
  int64_t count;

  __device__ explicit Place(const AdamWTensor& t)
      : param(t.param),
        m(static_cast<const T*>(t.m)),
        v(static_cast<const T*>(t.v)),
        new_param(t.new_param),
        new_m(static_cast<T*>(t.new_m)),
        new_v(static_cast<T*>(t.new_v)),
        count(t.count) {}
};

// n elements at i; all are read before any is written. A scale that is not
// finite leaves them as they are.
template <template <int, typename> typename Param, int n, typename T,
          typename W>
__device__ void UpdateAt(const Step<W>& step, const Place<T>& at,
                         const void* grad, Element grad_element, int64_t i) {
  using Vector = Pack<T, n>;
  auto load = [i](const T* from) {
    return *reinterpret_cast<const Vector*>(from + i);
  };
  auto store = [i](T* to, const Vector& x) {
    *reinterpret_cast<Vector*>(to + i) = x;
  };
  Vector param = Param<n, T>::Load(at.param, at.count, i);
  Vector m = load(at.m), v = load(at.v);
  W slopes[n];
#pragma unroll
  for (int k = 0; k < n; ++k) {
    slopes[k] = LoadElement<W>(grad, grad_element, i + k);
  }
  if (isfinite(step.scale)) {
#pragma unroll
    for (int k = 0; k < n; ++k) {
      W p = Number(param.at[k]), a = Number(m.at[k]), b = Number(v.at[k]);
      step.Update(slopes[k], &p, &a, &b);
      param.at[k] = Rounded<T>(p);
      m.at[k] = Rounded<T>(a);
      v.at[k] = Rounded<T>(b);
    }
  }
  Param<n, T>::Store(param, at.new_param, at.count, i);
  store(at.new_m, m);
  store(at.new_v, v);
}

// `grad_is_float`: as most are; the compiler then loads them as vectors too.
template <template <int, typename> typename Param, typename T,
          bool grad_is_float>
__global__ void __launch_bounds__(kThreads)
    UpdateKernel(const __grid_constant__ AdamWNumbers numbers,
                 const AdamWScalars scalars, Element grad_element,
                 const __grid_constant__ Tensors tensors) {
  constexpr int n = kVector<T>;
  int block = static_cast<int>(blockIdx.x);
  int t = TensorOfBlock(tensors, block);
  const AdamWTensor& tensor = tensors.at[t];
  if constexpr (grad_is_float) grad_element = Element::kF32;
  const Step<Wide<T>> step(numbers, scalars);
  const Place<T> at(tensor);
  // Lower halves begin behind the upper ones.
  const bool is_aligned =
      std::is_same_v<Param<n, T>, Plain<n, T>> || tensor.count % n == 0;
  int64_t begin = (block - tensors.first_block[t]) * kPiece<T>;
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    int64_t i = begin + (int64_t{r} * kThreads + threadIdx.x) * n;
    if (i + n <= tensor.count && is_aligned) {
      UpdateAt<Param, n>(step, at, tensor.grad, grad_element, i);
    } else {
      int64_t end = i + n < tensor.count ? i + n : tensor.count;
      for (; i < end; ++i) {
        UpdateAt<Param, 1>(step, at, tensor.grad, grad_element, i);
      }
    }
  }
}

template <template <int, typename> typename Param, typename T>
cudaError_t Launch(const AdamWNumbers& numbers, const AdamWScalars& scalars,
                   Element grad, Tensors* tensors, cudaStream_t stream) {
  int blocks = 0;
  for (int t = 0; t < tensors->count; ++t) {
    tensors->first_block[t] = blocks;
    blocks +=
        static_cast<int>((tensors->at[t].count + kPiece<T> - 1) / kPiece<T>);
  }
  tensors->first_block[tensors->count] = blocks;
  if (blocks == 0) return cudaSuccess;
  if (grad == Element::kF32) {
    UpdateKernel<Param, T, true>
        <<<blocks, kThreads, 0, stream>>>(numbers, scalars, grad, *tensors);
  } else {
    UpdateKernel<Param, T, false>
        <<<blocks, kThreads, 0, stream>>>(numbers, scalars, grad, *tensors);
  }
  return cudaGetLastError();
}

}  // namespace

cudaError_t UpdateByAdamW(const AdamWNumbers& numbers,
                          const AdamWScalars& scalars, Element param,
                          Element grad, const AdamWTensor* tensors, int count,
                          cudaStream_t stream) {
  if (count > kMostAdamWTensors) return cudaErrorInvalidValue;
  Tensors all;
  all.count = count;
  for (int t = 0; t < count; ++t) all.at[t] = tensors[t];
  if (numbers.in_halves) {
    return Launch<InHalves, float>(numbers, scalars, grad, &all, stream);
  }
  return WithFloat(param, [&](auto type) {
    return Launch<Plain, decltype(type)>(numbers, scalars, grad, &all, stream);
  });
}

}  // namespace asyra::cuda
