// Bound by memory: each value is read and written once, 28 bytes for a
// parameter in f32.
#include "executor/cuda/kernels/halves.cuh"
#include "executor/cuda/kernels/multi_adamw.h"
#include "executor/cuda/kernels/number.cuh"
#include "executor/cuda/kernels/tensor_of_block.cuh"

namespace asyra::cuda {
namespace {

constexpr int kThreads = 256;
// Vectors of each value that a thread updates. On an H200 2 reach 4.19 TB/s, 4
// 4.12, 8 3.9 to 4.1.
constexpr int kRounds = 2;

template <typename T>
constexpr int kVector = 16 / sizeof(T);
template <typename T>
constexpr int64_t kPiece = int64_t{kThreads} * kRounds* kVector<T>;

struct Tensors {
  int count = 0;
  // First block of each tensor, and the number of all blocks after the last.
  int first_block[kMostAdamWTensors + 1];
  AdamWTensor at[kMostAdamWTensors];
};

// Computes in f32 within two units in the last place. Exact ones are many
// instructions: a GPU that computes for long lowers its clock, and then they,
// not memory, set the pace (3.4 instead of 4.1 TB/s on an H200 at 1450 MHz).
__device__ inline float Root(float x) {
  float root;
  asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(x));
  return root;
}
__device__ inline float Quotient(float a, float b) { return __fdividef(a, b); }
__device__ inline double Root(double x) { return sqrt(x); }
__device__ inline double Quotient(double a, double b) { return a / b; }

// Values that all elements share, in the type that they are computed in; those
// that the host knows.
template <typename W>
struct Numbers {
  W beta1, beta2, rest1, rest2, log_beta1, log_beta2, eps, decay;
  Element rate, step, scale;

  explicit Numbers(const AdamWNumbers& n)
      : beta1(static_cast<W>(n.beta1)),
        beta2(static_cast<W>(n.beta2)),
        rest1(static_cast<W>(1 - n.beta1)),
        rest2(static_cast<W>(1 - n.beta2)),
        log_beta1(static_cast<W>(n.log_beta1)),
        log_beta2(static_cast<W>(n.log_beta2)),
        eps(static_cast<W>(n.eps)),
        decay(static_cast<W>(n.decay)),
        rate(n.rate),
        step(n.step),
        scale(n.scale) {}
};

// The same values with those that are data.
template <typename W>
struct Step {
  const Numbers<W>& of;
  W rate, scale;
  W correction1, correction2;  // 1 / (1 - beta^step)

  __device__ Step(const Numbers<W>& numbers, const AdamWScalars& s)
      : of(numbers),
        rate(LoadElement<W>(s.rate, of.rate, 0)),
        scale(s.scale == nullptr ? 1 : LoadElement<W>(s.scale, of.scale, 0)) {
    auto step = static_cast<W>(LoadInteger(s.step, of.step, 0));
    // Without what 1 - beta^step would lose near 1.
    correction1 = -1 / expm1(step * of.log_beta1);
    correction2 = -1 / expm1(step * of.log_beta2);
  }
  __device__ void Update(W grad, W* param, W* m, W* v) const {
    W slope = grad * scale;
    *m = *m * of.beta1 + of.rest1 * slope;
    *v = *v * of.beta2 + of.rest2 * slope * slope;
    W change = Quotient(*m * correction1, Root(*v * correction2) + of.eps);
    *param -= rate * (change + of.decay * *param);
  }
};

// Accessors of a thread to a tensor's values from one of its elements on:
// pointers are moved once, and a piece's elements lie at constant distances
// from them. What was loaded from one may be stored to the other.

// A param, plain.
template <typename T>
struct Plain {
  const T* from;
  T* to;

  __device__ Plain(const AdamWTensor& t, int64_t first)
      : from(static_cast<const T*>(t.param) + first),
        to(static_cast<T*>(t.new_param) + first) {}
  // Returns whether vectors of n may be loaded.
  static __device__ bool AllowsVectors(int64_t, int) { return true; }

  template <int n>
  __device__ Pack<T, n> Load(int64_t i) const {
    return *reinterpret_cast<const Pack<T, n>*>(from + i);
  }
  template <int n>
  __device__ void Store(const Pack<T, n>& x, int64_t i) const {
    *reinterpret_cast<Pack<T, n>*>(to + i) = x;
  }
};

// A param in halves: the lower ones begin behind all upper ones.
template <typename T>
struct InHalves {
  const uint16_t *upper, *lower;
  uint16_t *new_upper, *new_lower;

  __device__ InHalves(const AdamWTensor& t, int64_t first)
      : upper(static_cast<const uint16_t*>(t.param) + first),
        lower(upper + t.count),
        new_upper(static_cast<uint16_t*>(t.new_param) + first),
        new_lower(new_upper + t.count) {}
  static __device__ bool AllowsVectors(int64_t count, int n) {
    return count % n == 0;
  }

  template <int n>
  __device__ Pack<T, n> Load(int64_t i) const {
    using Part = Pack<uint16_t, n>;
    Part high = *reinterpret_cast<const Part*>(upper + i);
    Part low = *reinterpret_cast<const Part*>(lower + i);
    Pack<T, n> x;
#pragma unroll
    for (int k = 0; k < n; ++k) x.at[k] = FromHalves({high.at[k], low.at[k]});
    return x;
  }
  template <int n>
  __device__ void Store(const Pack<T, n>& x, int64_t i) const {
    Halves halves[n];
#pragma unroll
    for (int k = 0; k < n; ++k) halves[k] = ToHalves(x.at[k]);
    if constexpr (n == 1) {
      new_upper[i] = halves[0].upper;
      new_lower[i] = halves[0].lower;
    } else {
      static_assert(n == 4);
      // In words: of a Pack's the compiler may make a store each.
      auto words = [&](auto of) {
        return make_uint2(of(halves[0]) | uint32_t{of(halves[1])} << 16,
                          of(halves[2]) | uint32_t{of(halves[3])} << 16);
      };
      *reinterpret_cast<uint2*>(new_upper + i) =
          words([](Halves x) { return x.upper; });
      *reinterpret_cast<uint2*>(new_lower + i) =
          words([](Halves x) { return x.lower; });
    }
  }
};

// Gradients in f32, which most are.
struct FloatGrads {
  const float* from;

  __device__ FloatGrads(const AdamWTensor& t, Element, int64_t first)
      : from(static_cast<const float*>(t.grad) + first) {}

  template <typename W, int n>
  __device__ Pack<W, n> Load(int64_t i) const {
    auto grads = *reinterpret_cast<const Pack<float, n>*>(from + i);
    Pack<W, n> x;
#pragma unroll
    for (int k = 0; k < n; ++k) x.at[k] = grads.at[k];
    return x;
  }
};

// Gradients of a type that is known as it runs.
struct AnyGrads {
  const void* data;
  Element element;
  int64_t first;

  __device__ AnyGrads(const AdamWTensor& t, Element element, int64_t first)
      : data(t.grad), element(element), first(first) {}

  template <typename W, int n>
  __device__ Pack<W, n> Load(int64_t i) const {
    Pack<W, n> x;
#pragma unroll
    for (int k = 0; k < n; ++k) {
      x.at[k] = LoadElement<W>(data, element, first + i + k);
    }
    return x;
  }
};

template <typename Param, typename Grads, typename T>
struct Place {
  Param param;
  Grads grads;
  const T *m, *v;
  T *new_m, *new_v;

  __device__ Place(const AdamWTensor& t, Element grad, int64_t first)
      : param(t, first),
        grads(t, grad, first),
        m(static_cast<const T*>(t.m) + first),
        v(static_cast<const T*>(t.v) + first),
        new_m(static_cast<T*>(t.new_m) + first),
        new_v(static_cast<T*>(t.new_v) + first) {}
};

// n elements, i behind the place. All are read before any is written.
template <int n, typename T>
struct Elements {
  Pack<T, n> param, m, v;
  Pack<Wide<T>, n> grad;

  template <typename At>
  __device__ Elements(const At& at, int64_t i)
      : param(at.param.template Load<n>(i)),
        m(*reinterpret_cast<const Pack<T, n>*>(at.m + i)),
        v(*reinterpret_cast<const Pack<T, n>*>(at.v + i)),
        grad(at.grads.template Load<Wide<T>, n>(i)) {}

  // A scale that is not finite leaves them as they are.
  __device__ void Update(const Step<Wide<T>>& step) {
    if (!isfinite(step.scale)) return;
#pragma unroll
    for (int k = 0; k < n; ++k) {
      Wide<T> p = Number(param.at[k]), a = Number(m.at[k]), b = Number(v.at[k]);
      step.Update(grad.at[k], &p, &a, &b);
      param.at[k] = Rounded<T>(p);
      m.at[k] = Rounded<T>(a);
      v.at[k] = Rounded<T>(b);
    }
  }

  template <typename At>
  __device__ void Store(const At& at, int64_t i) const {
    at.param.Store(param, i);
    *reinterpret_cast<Pack<T, n>*>(at.new_m + i) = m;
    *reinterpret_cast<Pack<T, n>*>(at.new_v + i) = v;
  }
};

template <int n, typename T, typename At>
__device__ void UpdateAt(const Step<Wide<T>>& step, const At& at, int64_t i) {
  Elements<n, T> elements(at, i);
  elements.Update(step);
  elements.Store(at, i);
}

template <typename Param, typename Grads, typename T>
__global__ void __launch_bounds__(kThreads)
    UpdateKernel(const __grid_constant__ Numbers<Wide<T>> numbers,
                 const AdamWScalars scalars, Element grad,
                 const __grid_constant__ Tensors tensors) {
  constexpr int n = kVector<T>, kStride = kThreads * n;
  int block = static_cast<int>(blockIdx.x);
  int t = TensorOfBlock(tensors, block);
  const AdamWTensor& tensor = tensors.at[t];
  int64_t piece = (block - tensors.first_block[t]) * kPiece<T>;
  int own = static_cast<int>(threadIdx.x) * n;
  const Place<Param, Grads, T> at(tensor, grad, piece + own);
  int64_t left = tensor.count - piece;
  const bool in_vectors = Param::AllowsVectors(tensor.count, n);
  if (in_vectors && left >= kPiece<T>) {
    // On their way while the step is computed.
    Elements<n, T> first(at, 0);
    const Step<Wide<T>> step(numbers, scalars);
    first.Update(step);
    first.Store(at, 0);
#pragma unroll
    for (int r = 1; r < kRounds; ++r) UpdateAt<n, T>(step, at, r * kStride);
    return;
  }
  const Step<Wide<T>> step(numbers, scalars);
#pragma unroll 1
  for (int i = 0; i < kPiece<T> && own + i < left; i += kStride) {
    if (in_vectors && own + i + n <= left) {
      UpdateAt<n, T>(step, at, i);
      continue;
    }
#pragma unroll 1
    for (int k = i; k < i + n && own + k < left; ++k) {
      UpdateAt<1, T>(step, at, k);
    }
  }
}

template <template <typename> typename Param, typename T>
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
  const Numbers<Wide<T>> shared(numbers);
  auto* kernel = grad == Element::kF32 ? UpdateKernel<Param<T>, FloatGrads, T>
                                       : UpdateKernel<Param<T>, AnyGrads, T>;
  kernel<<<blocks, kThreads, 0, stream>>>(shared, scalars, grad, *tensors);
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
