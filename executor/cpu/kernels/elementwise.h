// The common part of elementwise kernels: operands are
// converted, block by block, to the type that is computed in, and the op's
// function is a loop over such blocks.
#pragma once

#include <algorithm>
#include <cstdint>

#include "executor/cpu/kernel_list.h"

namespace asyra::cpu {

inline constexpr int kMostOperands = 3;

// out[i] of `count` elements; operand k has its elements at in[k][i * step[k]],
// where step[k] is 0 or 1. `attr` is the op's number, where it has one.
template <typename C>
using BlockFn = void (*)(const C* const* in, const int64_t* step, int64_t count,
                         double attr, C* out);

// The function for each computation type: f32 also for f16 and bf16, i64 for
// all integers and bool. Null: not supported.
struct BlockFns {
  BlockFn<float> f32 = nullptr;
  BlockFn<double> f64 = nullptr;
  BlockFn<int64_t> i64 = nullptr;
};

// The last operand decides the computation type. The function gets the op's
// float attribute `attr`, if it is named.
CpuKernelDef Elementwise(std::string_view op, const BlockFns& fns,
                         std::string_view attr = "");

template <auto F, typename C>
void UnaryBlock(const C* const* in, const int64_t* step, int64_t count, double,
                C* out) {
  if (step[0] == 0) {
    std::fill_n(out, count, static_cast<C>(F(in[0][0])));
    return;
  }
  for (int64_t i = 0; i < count; ++i) out[i] = static_cast<C>(F(in[0][i]));
}

template <auto F, typename C>
void ShapedBlock(const C* const* in, const int64_t* step, int64_t count,
                 double attr, C* out) {
  for (int64_t i = 0; i < count; ++i) {
    out[i] = static_cast<C>(F(in[0][i * step[0]], static_cast<C>(attr)));
  }
}

// A loop for each case of a repeated operand, so that all of them can be
// vectorized.
template <auto F, typename C>
void BinaryBlock(const C* const* in, const int64_t* step, int64_t count, double,
                 C* out) {
  const C *a = in[0], *b = in[1];
  if (step[0] == 1 && step[1] == 1) {
    for (int64_t i = 0; i < count; ++i) out[i] = static_cast<C>(F(a[i], b[i]));
  } else if (step[0] == 1) {
    const C right = b[0];
    for (int64_t i = 0; i < count; ++i) out[i] = static_cast<C>(F(a[i], right));
  } else {
    const C left = a[0];
    for (int64_t i = 0; i < count; ++i) {
      out[i] = static_cast<C>(F(left, b[i * step[1]]));
    }
  }
}

// Kernels from functions: of floats, of floats and the op's attribute, of all
// numbers.
template <auto F>
CpuKernelDef FloatUnary(std::string_view op) {
  return Elementwise(op, {UnaryBlock<F, float>, UnaryBlock<F, double>});
}
template <auto F>
CpuKernelDef FloatShaped(std::string_view op, std::string_view attr) {
  return Elementwise(op, {ShapedBlock<F, float>, ShapedBlock<F, double>}, attr);
}
template <auto F>
CpuKernelDef FloatBinary(std::string_view op) {
  return Elementwise(op, {BinaryBlock<F, float>, BinaryBlock<F, double>});
}
template <auto F>
CpuKernelDef AnyUnary(std::string_view op) {
  return Elementwise(op, {UnaryBlock<F, float>, UnaryBlock<F, double>,
                          UnaryBlock<F, int64_t>});
}
template <auto F>
CpuKernelDef AnyBinary(std::string_view op) {
  return Elementwise(op, {BinaryBlock<F, float>, BinaryBlock<F, double>,
                          BinaryBlock<F, int64_t>});
}

}  // namespace asyra::cpu
