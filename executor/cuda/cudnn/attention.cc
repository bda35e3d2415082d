// Attention as a graph of cuDNN.
#include "executor/cuda/cudnn/cudnn.h"
#include "executor/cuda/cudnn/sdpa.h"
#include "executor/cuda/device/cuda_kernel.h"
#include "executor/device.h"

namespace asyra::cuda {
namespace {

enum Uid : int64_t { kQ = 1, kK, kV, kY, kLogSumsUid };

std::shared_ptr<fe::graph::Graph> Describe(const AttentionProblem& p,
                                           const AttentionBand& band,
                                           const SdpaLengths& lengths,
                                           bool has_log_sums) {
  auto graph = NewSdpaGraph(p);
  TensorPtr q = graph->tensor(QueryHeads("q", kQ, p, p.d));
  TensorPtr k = graph->tensor(KeyHeads("k", kK, p, band, p.d));
  TensorPtr v = graph->tensor(KeyHeads("v", kV, p, band, p.e));
  auto attributes = fe::graph::SDPA_attributes()
                        .set_name("attention")
                        .set_generate_stats(has_log_sums)
                        .set_attn_scale(static_cast<float>(p.scale));
  SetBand(band, &attributes);
  lengths.Describe(*graph, &attributes);
  auto [y, log_sums] = graph->sdpa(q, k, v, attributes);
  SetOutput(y, QueryHeads("y", kY, p, p.e));
  if (has_log_sums) SetOutput(log_sums, LogSums(kLogSumsUid, p));
  return graph;
}

class CudnnAttention : public CudaKernel {
 public:
  CudnnAttention(const AttentionProblem& problem, const AttentionBand& band,
                 const AttentionOperands& operands, bool has_log_sums)
      : problem_(problem),
        band_(band),
        lengths_(problem, operands.lengths),
        has_log_sums_(has_log_sums) {}

  absl::Status Prepare() {
    const AttentionProblem& p = problem_;
    std::vector<GraphValue> values = {
        {kQ, p.element, p.b * p.s * p.h * p.d, std::nullopt},
        {kK, p.element, p.b * p.t * p.g * p.d, std::nullopt},
        {kV, p.element, p.b * p.t * p.g * p.e, std::nullopt},
        {kY, p.element, p.b * p.s * p.h * p.e, std::nullopt}};
    if (has_log_sums_) {
      values.push_back({kLogSumsUid, Element::kF32, p.b * p.h * p.s});
    }
    lengths_.AddTo(&values);
    GraphSpec spec = {
        .key = fmt::format("attention {} lengths {}{}", SdpaKey(p, band_),
                           lengths_.given(), has_log_sums_ ? " log sums" : ""),
        .describe = [&] { return Describe(p, band_, lengths_, has_log_sums_); },
        .values = std::move(values),
        .barred = {fe::NumericalNote_t::NONDETERMINISTIC}};
    ASYRA_ASSIGN_OR_RETURN(graph_, CudnnGraph::Create(spec));
    return absl::OkStatus();
  }

  int64_t workspace_bytes() const override {
    return lengths_.bytes() + graph_->workspace_bytes();
  }

  void AddTuningResults(TuningResults* results) const override {
    graph_->AddTuningResult(results);
  }

  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) override {
    const AttentionProblem& p = problem_;
    CudnnGraph::Pointers pointers = {
        {kQ, args.operands[0]},
        {kK, FirstKey(args.operands[1], p, band_, p.d)},
        {kV, FirstKey(args.operands[2], p, band_, p.e)},
        {kY, args.results[0]}};
    if (has_log_sums_) pointers[kLogSumsUid] = args.results[1];
    ASYRA_RETURN_IF_ERROR(lengths_.Write(args, &pointers, stream));
    ASYRA_RETURN_IF_ERROR(graph_->Enqueue(
        pointers, static_cast<std::byte*>(args.workspace) + lengths_.bytes(),
        stream));
    if (!lengths_.given()) return absl::OkStatus();
    ASYRA_CUDA(ClearEmpty(p, static_cast<const int32_t*>(args.workspace),
                          args.results[0],
                          has_log_sums_ ? args.results[1] : nullptr, stream));
    return absl::OkStatus();
  }

 private:
  AttentionProblem problem_;
  AttentionBand band_;
  SdpaLengths lengths_;
  bool has_log_sums_;
  std::shared_ptr<CudnnGraph> graph_;
};

}  // namespace

absl::Status CheckCudnnTakes(const AttentionProblem& problem,
                             const AttentionOperands& operands) {
  if (problem.element != Element::kF16 && problem.element != Element::kBF16) {
    return Unimplemented("cuDNN's attention is for f16 and bf16");
  }
  if (operands.mask >= 0 || operands.sinks >= 0 || operands.starts >= 0 ||
      problem.softcap > 0) {
    return Unimplemented(
        "masks, documents, sinks and softcap are left to our own kernels");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<CudaKernel>> PrepareCudnnAttention(
    const AttentionProblem& problem, const AttentionOperands& operands,
    bool log_sums) {
  ASYRA_RETURN_IF_ERROR(CheckCudnnTakes(problem, operands));
  bool has_lengths = operands.lengths >= 0;
  std::optional<AttentionBand> band = BandOf(problem, has_lengths);
  if (!band.has_value()) {
    return Unimplemented("rows that may see no key, or no band of them");
  }
  auto kernel =
      std::make_unique<CudnnAttention>(problem, *band, operands, log_sums);
  ASYRA_RETURN_IF_ERROR(kernel->Prepare());
  return kernel;
}

}  // namespace asyra::cuda
