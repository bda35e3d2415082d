// Convolution (ir/ops/conv.cc) as matmuls: patches of the input are copied side
// by side into a buffer of fixed size and multiplied with the weights (im2col,
// Chellapilla, Puri and Simard 2006). Half precision is computed in single.
#include <algorithm>

#include "executor/cpu/convert.h"
#include "executor/cpu/gemm.h"
#include "executor/cpu/kernel_list.h"
#include "executor/cpu/workspace.h"
#include "ir/support/status.h"

namespace asyra::cpu {
namespace {

constexpr int64_t kPatchElements = 1 << 18;  // laid out at a time

int64_t Entry(const AttrMap& attrs, std::string_view name, size_t i,
              int64_t otherwise) {
  const Ints& list = attrs.Get<Ints>(name);
  return list.empty() ? otherwise : list[i];
}

// One spatial dimension; names as in ir/ops/conv.cc.
struct Window {
  int64_t size, taps, results, stride, before, dilation, spacing;

  // The element that tap j of result t sees, or -1: a zero.
  int64_t Seen(int64_t t, int64_t j) const {
    int64_t at = t * stride + j * dilation - before;
    if (at < 0 || at % spacing != 0) return -1;
    return at / spacing < size ? at / spacing : -1;
  }
};

template <typename T>
class ConvKernel : public CpuKernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelUse& use) {
    auto kernel = std::unique_ptr<ConvKernel>(new ConvKernel(use));
    ASYRA_ASSIGN_OR_RETURN(kernel->gemm_, kernel->MakeGemm(kernel->columns_));
    int64_t last = kernel->results_ % kernel->columns_;
    if (last > 0) {
      ASYRA_ASSIGN_OR_RETURN(kernel->last_gemm_, kernel->MakeGemm(last));
    }
    kernel->LayOut();
    return kernel;
  }

  int64_t workspace_bytes() const override { return layout_.bytes(); }

  absl::Status Run(const KernelArgs& args) override {
    const T* x = Operand(args, 0, x_elements_, x_at_);
    const T* w = Operand(args, 1, w_elements_, w_at_);
    T* out = out_at_ < 0 ? static_cast<T*>(args.results[0])
                         : WorkspaceAt<T>(args.workspace, out_at_);
    T* patches = WorkspaceAt<T>(args.workspace, patches_at_);
    void* gemm = WorkspaceAt<void>(args.workspace, gemm_at_);
    for (int64_t n = 0; n < batch_ * groups_; ++n) {
      const T* weights = w + n % groups_ * outputs_ * rows_;
      for (int64_t t = 0; t < results_; t += columns_) {
        int64_t columns = std::min(columns_, results_ - t);
        LayPatches(x + n * channels_ * plane_, t, columns, patches);
        Gemm& matmul = columns == columns_ ? *gemm_ : *last_gemm_;
        ASYRA_RETURN_IF_ERROR(matmul.Run(
            weights, patches, out + n * outputs_ * results_ + t, gemm));
      }
    }
    if (out_at_ >= 0) {
      Store(dtype_, out, batch_ * groups_ * outputs_ * results_,
            args.results[0]);
    }
    return absl::OkStatus();
  }

 private:
  explicit ConvKernel(const KernelUse& use)
      : dtype_(use.operand(0).dtype),
        x_elements_(use.operand(0).num_elements()),
        w_elements_(use.operand(1).num_elements()) {
    const Type &x = use.operand(0), &w = use.operand(1), &y = use.result(0);
    batch_ = x.size(0);
    channels_ = w.size(1);
    groups_ = x.size(1) / channels_;
    outputs_ = w.size(0) / groups_;
    for (int d = 2; d < x.rank(); ++d) {
      size_t i = d - 2;
      windows_.push_back(
          {.size = x.size(d),
           .taps = w.size(d),
           .results = y.size(d),
           .stride = Entry(use.attrs(), "strides", i, 1),
           .before = Entry(use.attrs(), "pads", i, 0),
           .dilation = Entry(use.attrs(), "dilations", i, 1),
           .spacing = Entry(use.attrs(), "input_dilations", i, 1)});
      plane_ *= x.size(d);
      taps_ *= w.size(d);
      results_ *= y.size(d);
    }
    rows_ = channels_ * taps_;
    columns_ = std::clamp<int64_t>(kPatchElements / rows_, 1, results_);
  }

  // Weights [outputs, rows] with patches [rows, columns].
  absl::StatusOr<std::unique_ptr<Gemm>> MakeGemm(int64_t columns) const {
    return Gemm::Create({.dtype = sizeof(T) == 8 ? DType::kF64 : DType::kF32,
                         .m = outputs_,
                         .n = columns,
                         .k = rows_,
                         .a_row = rows_,
                         .b_row = columns,
                         .c_row = results_});
  }

  void LayOut() {
    constexpr int64_t kSize = sizeof(T);
    patches_at_ = layout_.Add(rows_ * columns_ * kSize);
    gemm_at_ = layout_.Add(
        std::max(gemm_->workspace_bytes(),
                 last_gemm_ == nullptr ? 0 : last_gemm_->workspace_bytes()));
    bool converts = SizeOf(dtype_) != kSize;
    if (!converts) return;
    x_at_ = layout_.Add(x_elements_ * kSize);
    w_at_ = layout_.Add(w_elements_ * kSize);
    out_at_ = layout_.Add(batch_ * groups_ * outputs_ * results_ * kSize);
  }

  const T* Operand(const KernelArgs& args, int i, int64_t elements,
                   int64_t at) const {
    if (at < 0) return static_cast<const T*>(args.operands[i]);
    T* converted = WorkspaceAt<T>(args.workspace, at);
    Load(dtype_, args.operands[i], elements, converted);
    return converted;
  }

  // Row (channel, tap), column t - first: what that tap of result t sees.
  void LayPatches(const T* x, int64_t first, int64_t columns,
                  T* patches) const {
    for (int64_t j = 0; j < taps_; ++j) {
      for (int64_t t = 0; t < columns; ++t) {
        int64_t at = At(first + t, j);
        for (int64_t c = 0; c < channels_; ++c) {
          patches[(c * taps_ + j) * columns + t] =
              at < 0 ? T{0} : x[c * plane_ + at];
        }
      }
    }
  }

  int64_t At(int64_t t, int64_t j) const {
    int64_t at = 0, stride = 1;
    for (size_t i = windows_.size(); i-- > 0;) {
      const Window& window = windows_[i];
      int64_t one = window.Seen(t % window.results, j % window.taps);
      if (one < 0) return -1;
      at += one * stride;
      stride *= window.size;
      t /= window.results;
      j /= window.taps;
    }
    return at;
  }

  DType dtype_;
  int64_t x_elements_, w_elements_;
  int64_t batch_, channels_, groups_, outputs_;  // channels of one group
  int64_t plane_ = 1, taps_ = 1, results_ = 1;
  int64_t rows_, columns_;
  std::vector<Window> windows_;
  std::unique_ptr<Gemm> gemm_, last_gemm_;
  WorkspaceLayout layout_;
  int64_t patches_at_ = 0, gemm_at_ = 0;
  int64_t x_at_ = -1, w_at_ = -1, out_at_ = -1;  // -1: in place
};

bool HasElements(const KernelUse& use) {
  return use.operand(0).num_elements() > 0 &&
         use.operand(1).num_elements() > 0 && use.result(0).num_elements() > 0;
}

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelUse& use) {
  return use.operand(0).dtype == DType::kF64 ? ConvKernel<double>::Prepare(use)
                                             : ConvKernel<float>::Prepare(use);
}

}  // namespace

std::vector<CpuKernelDef> ConvKernels() {
  return {{"conv", HasElements, Prepare}};
}

}  // namespace asyra::cpu
