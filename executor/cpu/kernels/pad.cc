// Values made larger at their ends (ir/ops/pad.cc).
#include <cstring>

#include "executor/cpu/element.h"
#include "executor/cpu/kernel_list.h"
#include "executor/cpu/strided.h"

namespace asyra::cpu {
namespace {

// Pads by tables: for every index of each dimension of the result, the offset
// of its element in the operand; what is outside of it is the constant.
class PadKernel : public CpuKernel {
 public:
  explicit PadKernel(const KernelUse& use)
      : dtype_(use.operand(0).dtype), constant_(dtype_, {1}) {
    const Type &x = use.operand(0), &result = use.result(0);
    const auto& mode = use.attrs().Get<std::string>("mode");
    Shape strides = DenseStrides(x.shape());
    for (int d = 0; d < x.rank(); ++d) {
      std::vector<int64_t>& offsets = offsets_.emplace_back();
      int64_t before = use.attrs().Get<Ints>("before")[d];
      for (int64_t i = 0; i < result.size(d); ++i) {
        int64_t at = Source(mode, i - before, x.size(d));
        offsets.push_back(at < 0 ? kNowhere : at * strides[d]);
      }
    }
    constant_.Set(0, use.attrs().Float("value"));
  }

  absl::Status Run(const KernelArgs& args) override {
    auto* to = static_cast<std::byte*>(args.results[0]);
    Fill(static_cast<const std::byte*>(args.operands[0]), 0, 0, &to);
    return absl::OkStatus();
  }

 private:
  static constexpr int64_t kNowhere = -1;

  // The element at `index` counted from the first element of x.
  static int64_t Source(std::string_view mode, int64_t index, int64_t size) {
    if (index >= 0 && index < size) return index;
    if (mode == "edge") return index < 0 ? 0 : size - 1;
    if (mode == "wrap") return index < 0 ? index + size : index - size;
    if (mode == "reflect") return index < 0 ? -index : 2 * (size - 1) - index;
    return -1;
  }

  // Writes dimensions from `d` on; `offset` is that of the outer ones.
  void Fill(const std::byte* from, size_t d, int64_t offset,
            std::byte** to) const {
    if (d == offsets_.size()) {
      int64_t size = SizeOf(dtype_);
      const std::byte* element =
          offset == kNowhere ? constant_.data() : from + offset * size;
      std::memcpy(*to, element, size);
      *to += size;
      return;
    }
    for (int64_t own : offsets_[d]) {
      bool nowhere = own == kNowhere || offset == kNowhere;
      Fill(from, d + 1, nowhere ? kNowhere : offset + own, to);
    }
  }

  DType dtype_;
  Tensor constant_;
  std::vector<std::vector<int64_t>> offsets_;  // by dimension
};

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelUse& use) {
  return std::make_unique<PadKernel>(use);
}

}  // namespace

std::vector<CpuKernelDef> PadKernels() {
  return {{"pad", [](const KernelUse&) { return true; }, Prepare}};
}

}  // namespace asyra::cpu
