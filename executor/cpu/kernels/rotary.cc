// Rotary position embedding (ir/ops/rotary.cc), in single precision, or double
// for f64.
#include "executor/cpu/convert.h"
#include "executor/cpu/kernel_list.h"
#include "executor/cpu/workspace.h"

namespace asyra::cpu {
namespace {

template <typename T>
class RotaryKernel : public CpuKernel {
 public:
  explicit RotaryKernel(const KernelUse& use) : dtype_(use.operand(0).dtype) {
    const Type &x = use.operand(0), &table = use.operand(1);
    rows_ = x.size(0) * x.size(1);
    heads_ = x.size(2);
    size_ = x.size(3);
    half_ = table.size(table.rank() - 1);
    bool per_batch = table.rank() == 3 && table.size(0) > 1;
    angles_ = per_batch ? rows_ : x.size(1);
    interleaved_ = use.attrs().Bool("interleaved");
    row_at_ = layout_.Add(size_ * static_cast<int64_t>(sizeof(T)));
    cos_at_ = layout_.Add(half_ * static_cast<int64_t>(sizeof(T)));
    sin_at_ = layout_.Add(half_ * static_cast<int64_t>(sizeof(T)));
  }
  int64_t workspace_bytes() const override { return layout_.bytes(); }

  absl::Status Run(const KernelArgs& args) override {
    T* row = WorkspaceAt<T>(args.workspace, row_at_);
    T* cos = WorkspaceAt<T>(args.workspace, cos_at_);
    T* sin = WorkspaceAt<T>(args.workspace, sin_at_);
    int64_t element = SizeOf(dtype_);
    for (int64_t r = 0; r < rows_; ++r) {
      int64_t angle = r % angles_ * half_ * element;
      Load(dtype_, At(args.operands[1], angle), half_, cos);
      Load(dtype_, At(args.operands[2], angle), half_, sin);
      for (int64_t h = 0; h < heads_; ++h) {
        int64_t at = (r * heads_ + h) * size_ * element;
        Load(dtype_, At(args.operands[0], at), size_, row);
        interleaved_ ? Rotate(row, 2, 1, cos, sin)
                     : Rotate(row, 1, half_, cos, sin);
        Store(dtype_, row, size_, At(args.results[0], at));
      }
    }
    return absl::OkStatus();
  }

 private:
  static std::byte* At(void* data, int64_t bytes) {
    return static_cast<std::byte*>(data) + bytes;
  }

  // Pairs begin `step` apart; the second of a pair is `apart` from the first.
  void Rotate(T* row, int64_t step, int64_t apart, const T* cos,
              const T* sin) const {
    for (int64_t i = 0; i < half_; ++i) {
      T &a = row[i * step], &b = row[i * step + apart];
      T rotated = a * cos[i] - b * sin[i];
      b = b * cos[i] + a * sin[i];
      a = rotated;
    }
  }

  DType dtype_;
  int64_t rows_, heads_, size_, half_, angles_;
  bool interleaved_;
  WorkspaceLayout layout_;
  int64_t row_at_, cos_at_, sin_at_;
};

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelUse& use) {
  if (use.operand(0).dtype == DType::kF64) {
    return std::make_unique<RotaryKernel<double>>(use);
  }
  return std::make_unique<RotaryKernel<float>>(use);
}

}  // namespace

std::vector<CpuKernelDef> RotaryKernels() {
  return {{"rotary", [](const KernelUse&) { return true; }, Prepare}};
}

}  // namespace asyra::cpu
