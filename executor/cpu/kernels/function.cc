// Functions of one scalar (ir/ops/function.cc) and activations
// (ir/ops/activation.cc), computed in the precision of their operands.
#include <cmath>

#include "executor/cpu/kernels/elementwise.h"

namespace asyra::cpu {
namespace {

template <typename T>
T Sigmoid(T x) {
  return 1 / (1 + std::exp(-x));
}
template <typename T>
T Silu(T x) {
  return x / (1 + std::exp(-x));
}
template <typename T>
T Gelu(T x) {
  return x / 2 * (1 + std::erf(x * static_cast<T>(M_SQRT1_2)));
}
template <typename T>
T GeluTanh(T x) {
  T inner = static_cast<T>(std::sqrt(2 / M_PI)) *
            (x + static_cast<T>(0.044715) * x * x * x);
  return x / 2 * (1 + std::tanh(inner));
}
template <typename T>
T Relu(T x) {
  return std::max(x, T{0});
}
template <typename T>
T Softplus(T x) {
  return Relu(x) + std::log1p(std::exp(-std::abs(x)));
}

template <typename T>
T Negate(T x) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(uint64_t{0} - static_cast<uint64_t>(x));
  } else {
    return -x;
  }
}
template <typename T>
T Absolute(T x) {
  if constexpr (std::is_integral_v<T>) {
    return x < 0 ? Negate(x) : x;
  } else {
    return std::abs(x);
  }
}
template <typename T>
T Sign(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(x)) return x;
  }
  return static_cast<T>((x > 0) - (x < 0));
}

}  // namespace

std::vector<CpuKernelDef> FunctionKernels() {
  return {
      AnyUnary<[](auto x) { return Negate(x); }>("neg"),
      AnyUnary<[](auto x) { return Absolute(x); }>("abs"),
      AnyUnary<[](auto x) { return Sign(x); }>("sign"),
      FloatUnary<[](auto x) { return std::floor(x); }>("floor"),
      FloatUnary<[](auto x) { return std::ceil(x); }>("ceil"),
      FloatUnary<[](auto x) { return std::nearbyint(x); }>("round"),
      FloatUnary<[](auto x) { return std::exp(x); }>("exp"),
      FloatUnary<[](auto x) { return std::expm1(x); }>("expm1"),
      FloatUnary<[](auto x) { return std::log(x); }>("log"),
      FloatUnary<[](auto x) { return std::log1p(x); }>("log1p"),
      FloatUnary<[](auto x) { return std::sqrt(x); }>("sqrt"),
      FloatUnary<[](auto x) { return 1 / std::sqrt(x); }>("rsqrt"),
      FloatUnary<[](auto x) { return 1 / x; }>("reciprocal"),
      FloatUnary<[](auto x) { return std::erf(x); }>("erf"),
      FloatUnary<[](auto x) { return std::sin(x); }>("sin"),
      FloatUnary<[](auto x) { return std::cos(x); }>("cos"),
      FloatUnary<[](auto x) { return std::tan(x); }>("tan"),
      FloatUnary<[](auto x) { return std::asin(x); }>("asin"),
      FloatUnary<[](auto x) { return std::acos(x); }>("acos"),
      FloatUnary<[](auto x) { return std::atan(x); }>("atan"),
      FloatUnary<[](auto x) { return std::sinh(x); }>("sinh"),
      FloatUnary<[](auto x) { return std::cosh(x); }>("cosh"),
      FloatUnary<[](auto x) { return std::tanh(x); }>("tanh"),
      FloatUnary<[](auto x) { return std::asinh(x); }>("asinh"),
      FloatUnary<[](auto x) { return std::acosh(x); }>("acosh"),
      FloatUnary<[](auto x) { return std::atanh(x); }>("atanh"),
  };
}

std::vector<CpuKernelDef> ActivationKernels() {
  return {
      FloatUnary<[](auto x) { return Sigmoid(x); }>("sigmoid"),
      FloatUnary<[](auto x) { return Silu(x); }>("silu"),
      FloatUnary<[](auto x) {
        return x * Sigmoid(static_cast<decltype(x)>(1.702) * x);
      }>("quick_gelu"),
      FloatUnary<[](auto x) { return Gelu(x); }>("gelu"),
      FloatUnary<[](auto x) { return GeluTanh(x); }>("gelu_tanh"),
      FloatUnary<[](auto x) { return Relu(x); }>("relu"),
      FloatUnary<[](auto x) { return Softplus(x); }>("softplus"),
      FloatUnary<[](auto x) { return x * std::tanh(Softplus(x)); }>("mish"),
      FloatUnary<[](auto x) {
        using T = decltype(x);
        return x * std::clamp(x / 6 + static_cast<T>(0.5), T{0}, T{1});
      }>("hard_swish"),
      FloatShaped<[](auto x, auto slope) { return 0 < x ? x : slope * x; }>(
          "leaky_relu", "slope"),
      FloatShaped<[](auto x, auto alpha) {
        return 0 < x ? x : alpha * std::expm1(x);
      }>("elu", "alpha"),
      FloatShaped<[](auto x, auto cap) { return cap * std::tanh(x / cap); }>(
          "softcap", "cap"),
      FloatBinary<[](auto gate, auto up) { return Silu(gate) * up; }>("swiglu"),
      FloatBinary<[](auto gate, auto up) { return Gelu(gate) * up; }>("geglu"),
      FloatBinary<[](auto gate, auto up) { return GeluTanh(gate) * up; }>(
          "geglu_tanh"),
      FloatBinary<[](auto gate, auto up) { return Relu(gate) * up; }>("reglu"),
  };
}

}  // namespace asyra::cpu
