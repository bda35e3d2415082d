// Attention as a graph of cuDNN. Strides describe heads, which are between rows
// in memory.
#include "executor/cuda/cudnn/cudnn.h"
#include "executor/cuda/cudnn/graph.h"
#include "executor/cuda/device/cuda_kernel.h"
#include "executor/device.h"
#include "ir/support/round_up.h"

namespace asyra::cuda {
namespace {

enum Uid : int64_t { kQ = 1, kK, kV, kY, kRows, kKeys };

using TensorPtr = std::shared_ptr<fe::graph::Tensor_attributes>;

fe::graph::Tensor_attributes Tensor(const char* name, Uid uid, int64_t batch,
                                    int64_t rows, int64_t heads, int64_t width,
                                    int64_t batch_stride) {
  return fe::graph::Tensor_attributes()
      .set_name(name)
      .set_uid(uid)
      .set_dim({batch, heads, rows, width})
      .set_stride({batch_stride, width, heads * width, 1});
}

fe::graph::Tensor_attributes Lengths(const char* name, Uid uid, int64_t batch) {
  return fe::graph::Tensor_attributes()
      .set_name(name)
      .set_uid(uid)
      .set_dim({batch, 1, 1, 1})
      .set_stride({1, 1, 1, 1})
      .set_data_type(fe::DataType_t::INT32);
}

fe::graph::SDPA_attributes MaskOf(const AttentionProblem& p,
                                  const AttentionBand& band) {
  auto mask = fe::graph::SDPA_attributes()
                  .set_name("attention")
                  .set_generate_stats(false)
                  .set_attn_scale(static_cast<float>(p.scale));
  if (!band.left && !band.right) return mask;
  mask.set_diagonal_alignment(band.bottom_right
                                  ? fe::DiagonalAlignment_t::BOTTOM_RIGHT
                                  : fe::DiagonalAlignment_t::TOP_LEFT);
  if (band.left) mask.set_diagonal_band_left_bound(*band.left);
  if (band.right) mask.set_diagonal_band_right_bound(*band.right);
  return mask;
}

std::shared_ptr<fe::graph::Graph> Describe(const AttentionProblem& p,
                                           const AttentionBand& band,
                                           bool has_lengths) {
  auto graph = std::make_shared<fe::graph::Graph>();
  graph->set_io_data_type(CudnnType(p.element))
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  TensorPtr q =
      graph->tensor(Tensor("q", kQ, p.b, p.s, p.h, p.d, p.s * p.h * p.d));
  TensorPtr k =
      graph->tensor(Tensor("k", kK, p.b, band.keys, p.g, p.d, p.t * p.g * p.d));
  TensorPtr v =
      graph->tensor(Tensor("v", kV, p.b, band.keys, p.g, p.e, p.t * p.g * p.e));
  fe::graph::SDPA_attributes mask = MaskOf(p, band);
  if (has_lengths) {
    mask.set_padding_mask(true)
        .set_seq_len_q(graph->tensor(Lengths("rows", kRows, p.b)))
        .set_seq_len_kv(graph->tensor(Lengths("keys", kKeys, p.b)));
  }
  TensorPtr y = graph->sdpa(q, k, v, mask)[0];
  y->set_output(true)
      .set_uid(kY)
      .set_dim({p.b, p.h, p.s, p.e})
      .set_stride({p.s * p.h * p.e, p.e, p.h * p.e, 1});
  return graph;
}

std::string KeyOf(const AttentionProblem& p, const AttentionBand& band,
                  bool has_lengths) {
  return fmt::format(
      "attention {} {} {} {} {} {} {} {} scale {} keys {} bottom right {} left "
      "{} right {} lengths {}",
      static_cast<int>(p.element), p.b, p.s, p.h, p.d, p.t, p.g, p.e, p.scale,
      band.keys, band.bottom_right, band.left.value_or(0),
      band.right.value_or(-1), has_lengths);
}

class CudnnAttention : public CudaKernel {
 public:
  CudnnAttention(const AttentionProblem& problem, const AttentionBand& band,
                 const AttentionOperands& operands)
      : problem_(problem), band_(band), operands_(operands) {}

  absl::Status Prepare() {
    const AttentionProblem& p = problem_;
    bool has_lengths = operands_.lengths >= 0;
    std::vector<GraphValue> values = {
        {kQ, p.element, p.b * p.s * p.h * p.d, std::nullopt},
        {kK, p.element, p.b * p.t * p.g * p.d, std::nullopt},
        {kV, p.element, p.b * p.t * p.g * p.e, std::nullopt},
        {kY, p.element, p.b * p.s * p.h * p.e, std::nullopt}};
    if (has_lengths) {
      values.push_back({kRows, Element::kI32, p.b, p.s});
      values.push_back({kKeys, Element::kI32, p.b, p.t});
      lengths_bytes_ = RoundUp(2 * p.b * 4, kWorkspaceAlignment);
    }
    GraphSpec spec = {
        .key = KeyOf(p, band_, has_lengths),
        .describe = [&] { return Describe(p, band_, has_lengths); },
        .values = std::move(values),
        .barred = {fe::NumericalNote_t::NONDETERMINISTIC}};
    ASYRA_ASSIGN_OR_RETURN(graph_, CudnnGraph::Create(spec));
    return absl::OkStatus();
  }

  int64_t workspace_bytes() const override {
    return lengths_bytes_ + graph_->workspace_bytes();
  }

  void AddTuningResults(TuningResults* results) const override {
    graph_->AddTuningResult(results);
  }

  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) override {
    const AttentionProblem& p = problem_;
    constexpr int64_t kElementBytes = 2;  // f16 and bf16
    auto key_at = [&](int operand, int64_t width) {
      return static_cast<std::byte*>(args.operands[operand]) +
             band_.first_key * p.g * width * kElementBytes;
    };
    CudnnGraph::Pointers pointers = {{kQ, args.operands[0]},
                                     {kK, key_at(1, p.d)},
                                     {kV, key_at(2, p.e)},
                                     {kY, args.results[0]}};
    if (lengths_bytes_ > 0) {
      auto* lengths = static_cast<int32_t*>(args.workspace);
      ASYRA_CUDA(
          WriteLengths(p, args.operands[operands_.lengths], lengths, stream));
      pointers[kKeys] = lengths;
      pointers[kRows] = lengths + p.b;
    }
    ASYRA_RETURN_IF_ERROR(graph_->Enqueue(
        pointers, static_cast<std::byte*>(args.workspace) + lengths_bytes_,
        stream));
    if (lengths_bytes_ == 0) return absl::OkStatus();
    ASYRA_CUDA(ClearEmpty(p, static_cast<const int32_t*>(args.workspace),
                          args.results[0], stream));
    return absl::OkStatus();
  }

 private:
  AttentionProblem problem_;
  AttentionBand band_;
  AttentionOperands operands_;
  int64_t lengths_bytes_ = 0;
  std::shared_ptr<CudnnGraph> graph_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CudaKernel>> PrepareCudnnAttention(
    const AttentionProblem& problem, const AttentionOperands& operands) {
  if (problem.element != Element::kF16 && problem.element != Element::kBF16) {
    return Unimplemented("cuDNN's attention is for f16 and bf16");
  }
  if (operands.mask >= 0 || operands.sinks >= 0 || problem.softcap > 0) {
    return Unimplemented("masks, sinks and softcap are left to our own kernel");
  }
  std::optional<AttentionBand> band = BandOf(problem, operands.lengths >= 0);
  if (!band.has_value()) {
    return Unimplemented("rows that may see no key, or no band of them");
  }
  auto kernel = std::make_unique<CudnnAttention>(problem, *band, operands);
  ASYRA_RETURN_IF_ERROR(kernel->Prepare());
  return kernel;
}

}  // namespace asyra::cuda
