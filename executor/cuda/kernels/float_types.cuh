// Kernels over any float type: what they sum in, and conversions.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "executor/cuda/device/element.h"

namespace asyra::cuda {

template <typename T>
struct SumOf {
  using Type = float;
};
template <>
struct SumOf<double> {
  using Type = double;
};

// Calls run(T()) with the type of a float element.
template <typename Run>
cudaError_t WithFloat(Element element, Run run) {
  switch (element) {
    case Element::kF16:
      return run(__half());
    case Element::kBF16:
      return run(__nv_bfloat16());
    case Element::kF32:
      return run(float());
    case Element::kF64:
      return run(double());
    default:
      return cudaErrorInvalidValue;
  }
}

// Element i of data whose type is known as it runs.
template <typename A>
__device__ A LoadElement(const void* data, Element element, int64_t i) {
  switch (element) {
    case Element::kBool:
      return static_cast<const uint8_t*>(data)[i] != 0;
    case Element::kI32:
      return static_cast<A>(static_cast<const int32_t*>(data)[i]);
    case Element::kI64:
      return static_cast<A>(static_cast<const int64_t*>(data)[i]);
    case Element::kF16:
      return static_cast<A>(
          static_cast<float>(static_cast<const __half*>(data)[i]));
    case Element::kBF16:
      return static_cast<A>(
          static_cast<float>(static_cast<const __nv_bfloat16*>(data)[i]));
    case Element::kF32:
      return static_cast<A>(static_cast<const float*>(data)[i]);
    default:
      return static_cast<A>(static_cast<const double*>(data)[i]);
  }
}

inline __device__ int64_t LoadInteger(const void* data, Element element,
                                      int64_t i) {
  return element == Element::kI32 ? static_cast<const int32_t*>(data)[i]
                                  : static_cast<const int64_t*>(data)[i];
}

template <typename A, typename T>
__device__ A Widen(T value) {
  if constexpr (std::is_same_v<T, double>) {
    return value;
  } else {
    return static_cast<A>(static_cast<float>(value));
  }
}

template <typename T, typename A>
__device__ T Narrow(A value) {
  if constexpr (std::is_same_v<T, double>) {
    return value;
  } else {
    return static_cast<T>(static_cast<float>(value));
  }
}

// Rounds into element i of data of a float type that is known as it runs.
template <typename A>
__device__ void StoreElement(void* data, Element element, int64_t i, A value) {
  switch (element) {
    case Element::kF16:
      static_cast<__half*>(data)[i] = Narrow<__half>(value);
      break;
    case Element::kBF16:
      static_cast<__nv_bfloat16*>(data)[i] = Narrow<__nv_bfloat16>(value);
      break;
    case Element::kF32:
      static_cast<float*>(data)[i] = Narrow<float>(value);
      break;
    default:
      static_cast<double*>(data)[i] = value;
  }
}

}  // namespace asyra::cuda
