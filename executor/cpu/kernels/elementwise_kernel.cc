#include <algorithm>
#include <array>

#include "executor/cpu/convert.h"
#include "executor/cpu/kernels/elementwise.h"
#include "executor/cpu/number.h"
#include "executor/cpu/strided.h"

namespace asyra::cpu {
namespace {

// Blocks of all operands and the result stay in the first level cache.
constexpr int64_t kBlock = 512;

template <typename C>
constexpr DType kPlain = std::is_same_v<C, float>    ? DType::kF32
                         : std::is_same_v<C, double> ? DType::kF64
                                                     : DType::kI64;

template <typename C>
class ElementwiseKernel : public CpuKernel {
 public:
  ElementwiseKernel(const KernelUse& use, BlockFn<C> fn, double attr)
      : fn_(fn), attr_(attr), count_(use.num_operands()) {
    const Type& result = use.result(0);
    std::array<Shape, kMostOperands + 1> strides;
    for (Shape& s : strides) s.assign(result.rank(), 0);
    for (int k = 0; k < count_; ++k) {
      strides[k] = BroadcastStrides(use.operand(k).shape(), result.shape());
      dtypes_[k] = use.operand(k).dtype;
    }
    strides[kMostOperands] = BroadcastStrides(result.shape(), result.shape());
    dtypes_[kMostOperands] = result.dtype;
    loop_ = StridedLoop<kMostOperands + 1>(result.shape(), strides);
  }

  absl::Status Run(const KernelArgs& args) override {
    loop_.ForEachRun([&](const std::array<int64_t, kMostOperands + 1>& at) {
      for (int64_t begin = 0; begin < loop_.run(); begin += kBlock) {
        Block(args, at, begin, std::min(kBlock, loop_.run() - begin));
      }
    });
    return absl::OkStatus();
  }

 private:
  static std::byte* At(void* data, DType dtype, int64_t element) {
    return static_cast<std::byte*>(data) + element * SizeOf(dtype);
  }

  void Block(const KernelArgs& args,
             const std::array<int64_t, kMostOperands + 1>& at, int64_t begin,
             int64_t count) {
    C buffers[kMostOperands + 1][kBlock];
    const C* in[kMostOperands];
    int64_t step[kMostOperands];
    for (int k = 0; k < count_; ++k) {
      step[k] = loop_.step(k);
      const std::byte* data =
          At(args.operands[k], dtypes_[k], at[k] + begin * step[k]);
      if (dtypes_[k] == kPlain<C>) {
        in[k] = reinterpret_cast<const C*>(data);
      } else {
        Load(dtypes_[k], data, step[k] == 0 ? 1 : count, buffers[k]);
        in[k] = buffers[k];
      }
    }
    DType dtype = dtypes_[kMostOperands];
    std::byte* out = At(args.results[0], dtype, at[kMostOperands] + begin);
    if (dtype == kPlain<C>) {
      fn_(in, step, count, attr_, reinterpret_cast<C*>(out));
    } else {
      fn_(in, step, count, attr_, buffers[kMostOperands]);
      Store(dtype, buffers[kMostOperands], count, out);
    }
  }

  BlockFn<C> fn_;
  double attr_;
  int count_;
  std::array<DType, kMostOperands + 1> dtypes_{};  // the result's is the last
  StridedLoop<kMostOperands + 1> loop_;
};

DType ComputedIn(const KernelUse& use) {
  return use.operand(use.num_operands() - 1).dtype;
}

bool Supports(const KernelUse& use, const BlockFns& fns) {
  DType dtype = ComputedIn(use);
  return !IsFloat(dtype)        ? fns.i64 != nullptr
         : dtype == DType::kF64 ? fns.f64 != nullptr
                                : fns.f32 != nullptr;
}

std::unique_ptr<Kernel> Make(const KernelUse& use, const BlockFns& fns,
                             double attr) {
  DType dtype = ComputedIn(use);
  if (!IsFloat(dtype)) {
    return std::make_unique<ElementwiseKernel<int64_t>>(use, fns.i64, attr);
  }
  if (dtype == DType::kF64) {
    return std::make_unique<ElementwiseKernel<double>>(use, fns.f64, attr);
  }
  return std::make_unique<ElementwiseKernel<float>>(use, fns.f32, attr);
}

}  // namespace

CpuKernelDef Elementwise(std::string_view op, const BlockFns& fns,
                         std::string_view attr) {
  return {op, [fns](const KernelUse& use) { return Supports(use, fns); },
          [fns, attr](
              const KernelUse& use) -> absl::StatusOr<std::unique_ptr<Kernel>> {
            return Make(use, fns, attr.empty() ? 0 : use.attrs().Float(attr));
          }};
}

}  // namespace asyra::cpu
