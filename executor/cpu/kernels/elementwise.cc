// Arithmetic, comparison, logic, choice and conversion (ir/ops/elementwise.cc).
#include "executor/cpu/kernels/elementwise.h"

#include <cmath>

#include "executor/cpu/convert.h"
#include "ir/ops/integers.h"

namespace asyra::cpu {
namespace {

using ops::Divide;
using ops::Maximum;
using ops::Minimum;
using ops::Power;
using ops::Remainder;
using ops::Wrap;

// condition, yes, no.
template <typename C>
void SelectBlock(const C* const* in, const int64_t* step, int64_t count, double,
                 C* out) {
  for (int64_t i = 0; i < count; ++i) {
    out[i] = in[0][i * step[0]] != 0 ? in[1][i * step[1]] : in[2][i * step[2]];
  }
}

// Casts in double, which holds every float and any integer that a float can be
// rounded to; between integers exactly.
template <typename C>
class CastKernel : public CpuKernel {
 public:
  explicit CastKernel(const KernelUse& use)
      : from_(use.operand(0).dtype),
        to_(use.result(0).dtype),
        count_(use.result(0).num_elements()) {}

  absl::Status Run(const KernelArgs& args) override {
    constexpr int64_t kBlock = 512;
    C block[kBlock];
    for (int64_t i = 0; i < count_; i += kBlock) {
      int64_t count = std::min(kBlock, count_ - i);
      Load(from_,
           static_cast<const std::byte*>(args.operands[0]) + i * SizeOf(from_),
           count, block);
      Store(to_, block, count,
            static_cast<std::byte*>(args.results[0]) + i * SizeOf(to_));
    }
    return absl::OkStatus();
  }

 private:
  DType from_, to_;
  int64_t count_;
};

bool IsTruncated(const KernelUse& use) { return use.attrs().Bool("truncated"); }

// The kernel for those of its uses that `is` holds for.
CpuKernelDef Where(CpuKernelDef def, bool (*is)(const KernelUse&)) {
  def.supports = [is, supports = def.supports](const KernelUse& use) {
    return is(use) && supports(use);
  };
  return def;
}

absl::StatusOr<std::unique_ptr<Kernel>> PrepareCast(const KernelUse& use) {
  if (IsFloat(use.operand(0).dtype) || IsFloat(use.result(0).dtype)) {
    return std::make_unique<CastKernel<double>>(use);
  }
  return std::make_unique<CastKernel<int64_t>>(use);
}

}  // namespace

std::vector<CpuKernelDef> ElementwiseKernels() {
  return {
      AnyBinary<[](auto a, auto b) { return Wrap(a) + Wrap(b); }>("add"),
      AnyBinary<[](auto a, auto b) { return Wrap(a) - Wrap(b); }>("sub"),
      AnyBinary<[](auto a, auto b) { return Wrap(a) * Wrap(b); }>("mul"),
      AnyBinary<[](auto a, auto b) { return Divide(a, b); }>("div"),
      AnyBinary<[](auto a, auto b) { return Power(a, b); }>("pow"),
      Where(AnyBinary<[](auto a, auto b) { return Remainder<true>(a, b); }>(
                "mod"),
            IsTruncated),
      AnyBinary<[](auto a, auto b) { return Remainder<false>(a, b); }>("mod"),
      AnyBinary<[](auto a, auto b) { return Maximum(a, b); }>("max"),
      AnyBinary<[](auto a, auto b) { return Minimum(a, b); }>("min"),
      AnyBinary<[](auto a, auto b) { return a == b; }>("equal"),
      AnyBinary<[](auto a, auto b) { return a < b; }>("less"),
      AnyBinary<[](auto a, auto b) { return a <= b; }>("less_equal"),
      AnyBinary<[](auto a, auto b) { return a && b; }>("and"),
      AnyBinary<[](auto a, auto b) { return a || b; }>("or"),
      AnyUnary<[](auto a) { return !a; }>("not"),
      FloatUnary<[](auto a) { return std::isnan(a); }>("is_nan"),
      FloatUnary<[](auto a) { return std::isinf(a); }>("is_inf"),
      Elementwise("select", {SelectBlock<float>, SelectBlock<double>,
                             SelectBlock<int64_t>}),
      {"cast", [](const KernelUse&) { return true; }, PrepareCast},
  };
}

}  // namespace asyra::cpu
