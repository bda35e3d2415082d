// The gradients of attention by q, k and v as one graph of cuDNN. dq is summed
// by atomic additions in f32, so that its last bits change from run to run, as
// in PyTorch by default: the algorithm with a fixed order keeps a matrix of all
// scores on Hopper, 8.6 GB for 2 x 32 heads of 8192 tokens.
#include "executor/cuda/cudnn/cudnn.h"
#include "executor/cuda/cudnn/sdpa.h"
#include "executor/cuda/device/cuda_kernel.h"

namespace asyra::cuda {
namespace {

enum Uid : int64_t {
  kQ = 1,
  kK,
  kV,
  kY,
  kLogSumsUid,
  kDy,
  kDq,
  kDk,
  kDv,
};

std::shared_ptr<fe::graph::Graph> Describe(const AttentionProblem& p,
                                           const AttentionBand& band,
                                           const SdpaLengths& lengths) {
  auto graph = NewSdpaGraph(p);
  TensorPtr q = graph->tensor(QueryHeads("q", kQ, p, p.d));
  TensorPtr k = graph->tensor(KeyHeads("k", kK, p, band, p.d));
  TensorPtr v = graph->tensor(KeyHeads("v", kV, p, band, p.e));
  TensorPtr y = graph->tensor(QueryHeads("y", kY, p, p.e));
  TensorPtr dy = graph->tensor(QueryHeads("dy", kDy, p, p.e));
  TensorPtr log_sums = graph->tensor(LogSums(kLogSumsUid, p));
  auto attributes = fe::graph::SDPA_backward_attributes()
                        .set_name("attention_grad")
                        .set_attn_scale(static_cast<float>(p.scale));
  SetBand(band, &attributes);
  lengths.Describe(*graph, &attributes);
  auto [dq, dk, dv] =
      graph->sdpa_backward(q, k, v, y, dy, log_sums, attributes);
  SetOutput(dq, QueryHeads("dq", kDq, p, p.d));
  SetOutput(dk, KeyHeads("dk", kDk, p, band, p.d));
  SetOutput(dv, KeyHeads("dv", kDv, p, band, p.e));
  return graph;
}

// cuDNN sums dq in f32, and without one place for each query head dk and dv.
int64_t MostWorkspaceBytes(const AttentionProblem& p) {
  constexpr int64_t kSumBytes = 4, kRest = int64_t{256} << 20;
  return kRest + kSumBytes * p.b * p.h * (p.s * p.d + p.t * (p.d + p.e));
}

class CudnnAttentionGrad : public CudaKernel {
 public:
  CudnnAttentionGrad(const AttentionProblem& problem, const AttentionBand& band,
                     const AttentionOperands& operands)
      : problem_(problem), band_(band), lengths_(problem, operands.lengths) {}

  absl::Status Prepare() {
    const AttentionProblem& p = problem_;
    int64_t query = p.b * p.s * p.h, key = p.b * p.t * p.g;
    GraphSpec spec = {
        .key = fmt::format("attention_grad {}{}", SdpaKey(p, band_),
                           lengths_.given() ? " lengths" : ""),
        .describe = [&] { return Describe(p, band_, lengths_); },
        .values = {{kQ, p.element, query * p.d, std::nullopt},
                   {kK, p.element, key * p.d, std::nullopt},
                   {kV, p.element, key * p.e, std::nullopt},
                   {kY, p.element, query * p.e, std::nullopt},
                   {kLogSumsUid, Element::kF32, query, std::nullopt},
                   {kDy, p.element, query * p.e, std::nullopt},
                   {kDq, p.element, query * p.d, std::nullopt},
                   {kDk, p.element, key * p.d, std::nullopt},
                   {kDv, p.element, key * p.e, std::nullopt}},
        .barred = {},
        .most_workspace_bytes = MostWorkspaceBytes(p)};
    lengths_.AddTo(&spec.values);
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
    auto first = [&](void* keys, int64_t width) {
      return FirstKey(keys, p, band_, width);
    };
    if (band_.keys < p.t) {  // the others have no gradient
      size_t keys = static_cast<size_t>(p.b * p.t * p.g) * sizeof(uint16_t);
      ASYRA_CUDA(cudaMemsetAsync(args.results[1], 0, keys * p.d, stream));
      ASYRA_CUDA(cudaMemsetAsync(args.results[2], 0, keys * p.e, stream));
    }
    CudnnGraph::Pointers pointers = {{kQ, args.operands[0]},
                                     {kK, first(args.operands[1], p.d)},
                                     {kV, first(args.operands[2], p.e)},
                                     {kY, args.operands[kGradY]},
                                     {kLogSumsUid, args.operands[kGradLogSums]},
                                     {kDy, args.operands[kGradDy]},
                                     {kDq, args.results[0]},
                                     {kDk, first(args.results[1], p.d)},
                                     {kDv, first(args.results[2], p.e)}};
    ASYRA_RETURN_IF_ERROR(lengths_.Write(args, &pointers, stream));
    return graph_->Enqueue(
        pointers, static_cast<std::byte*>(args.workspace) + lengths_.bytes(),
        stream);
  }

 private:
  AttentionProblem problem_;
  AttentionBand band_;
  SdpaLengths lengths_;
  std::shared_ptr<CudnnGraph> graph_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CudaKernel>> PrepareCudnnAttentionGrad(
    const AttentionProblem& problem, const AttentionOperands& operands) {
  ASYRA_RETURN_IF_ERROR(CheckCudnnTakes(problem, operands));
  std::optional<AttentionBand> band = BandOf(problem, operands.lengths >= 0);
  if (!band.has_value()) {
    return Unimplemented("rows that may see no key, or no band of them");
  }
  auto kernel = std::make_unique<CudnnAttentionGrad>(problem, *band, operands);
  ASYRA_RETURN_IF_ERROR(kernel->Prepare());
  return kernel;
}

}  // namespace asyra::cuda
