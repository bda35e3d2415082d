// Elements in device code: the type that they are computed in, and kernels
// chosen by them.
#pragma once

#include "executor/cuda/kernels/float_types.cuh"

namespace asyra::cuda {

// float for f16, bf16 and f32; double for f64; 64 bits for integers, bool.
template <typename T>
using Wide = std::conditional_t<
    std::is_same_v<T, double>, double,
    std::conditional_t<std::is_integral_v<T>, int64_t, float>>;

template <typename T>
__device__ Wide<T> Number(T x) {
  return static_cast<Wide<T>>(x);
}
template <typename T, typename W>
__device__ T Rounded(W x) {
  if constexpr (std::is_same_v<T, bool>) return x != 0;
  return static_cast<T>(x);
}

// Elements that are moved at once.
template <typename T, int n>
struct alignas(sizeof(T) * n < 16 ? sizeof(T) * n : 16) Pack {
  T at[n];
};

// Calls visit(T{}) with the type of the element.
template <typename Visit>
cudaError_t WithNumber(Element element, Visit visit) {
  switch (element) {
    case Element::kBool:
      return visit(bool{});
    case Element::kI32:
      return visit(int32_t{});
    case Element::kI64:
      return visit(int64_t{});
    default:
      return WithFloat(element, visit);
  }
}

// Returns element i of integers or bools.
__device__ inline int64_t IntegerAt(Element element, const void* data,
                                    int64_t i) {
  if (element == Element::kI64) return static_cast<const int64_t*>(data)[i];
  if (element == Element::kI32) return static_cast<const int32_t*>(data)[i];
  return static_cast<const uint8_t*>(data)[i] != 0;
}

// Returns whether a grid may have so many blocks in its first dimension. A
// kernel with another number of them is cudaErrorInvalidConfiguration: 32 bits
// of it would leave the rest undone without a word.
inline bool IsGrid(int64_t blocks) { return blocks <= INT32_MAX; }

// Returns a grid of one thread for each of `count`, at most so many blocks that
// a thread's own step fits in 32 bits.
inline unsigned BlocksFor(int64_t count, int threads) {
  constexpr int64_t kMost = 1 << 20;
  int64_t blocks = (count + threads - 1) / threads;
  return static_cast<unsigned>(blocks < kMost ? blocks : kMost);
}

}  // namespace asyra::cuda
