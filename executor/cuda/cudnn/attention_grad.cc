// The gradients of attention by q, k and v as one graph of cuDNN. dq is summed
// by atomic additions in f32, so that its last bits change from run to run, as
// in PyTorch by default: the algorithm with a fixed order keeps a matrix of all
// scores on Hopper, 8.6 GB for 2 x 32 heads of 8192 tokens.
#include <array>

#include "executor/cuda/codegen/generated_kernel.h"
#include "executor/cuda/cudnn/cudnn.h"
#include "executor/cuda/cudnn/sdpa.h"
#include "executor/cuda/device/cuda_kernel.h"
#include "executor/device.h"
#include "ir/support/round_up.h"

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

// Returns the band as what every row sees and a square behind it: with a
// diagonal that begins behind the first key cuDNN takes 1.06 to 1.32 times as
// long as for both (H200, 2048 to 16384 rows).
std::vector<AttentionBand> PartsOf(const AttentionProblem& p,
                                   const AttentionBand& band,
                                   bool has_lengths) {
  int64_t before = band.keys - p.s;
  bool ends_on_last = band.bottom_right && before > 0;
  if (has_lengths || !ends_on_last || band.left || band.right != 0) {
    return {band};
  }
  AttentionBand whole = {.first_key = band.first_key, .keys = before};
  AttentionBand square = {
      .first_key = band.first_key + before, .keys = p.s, .right = 0};
  return {whole, square};
}

// Adds up dq of several parts.
absl::StatusOr<GeneratedKernel> SumOfParts(DType dtype, int64_t elements) {
  constexpr int kParts = 2;
  Loop loop{.rows = {}, .columns = {elements}};
  loop.operands.assign(kParts, Access{Shape{1}});
  loop.results.push_back(Access{Shape{1}});
  Expression expression;
  expression.Store(expression.SumOfOperands(dtype, kParts), dtype);
  return GeneratedKernel::Create(expression, loop);
}

class CudnnAttentionGrad : public CudaKernel {
 public:
  CudnnAttentionGrad(const AttentionProblem& problem, const AttentionBand& band,
                     const AttentionOperands& operands)
      : problem_(problem),
        lengths_(problem, operands.lengths),
        bands_(PartsOf(problem, band, operands.lengths >= 0)),
        keys_(band.keys) {}

  absl::Status Prepare() {
    for (const AttentionBand& band : bands_) {
      ASYRA_ASSIGN_OR_RETURN(graphs_.emplace_back(), GraphOf(band));
      graph_bytes_ = std::max(graph_bytes_, graphs_.back()->workspace_bytes());
    }
    graph_bytes_ = RoundUp(graph_bytes_, kWorkspaceAlignment);
    if (bands_.size() == 1) return absl::OkStatus();
    const AttentionProblem& p = problem_;
    DType dtype = p.element == Element::kBF16 ? DType::kBF16 : DType::kF16;
    ASYRA_ASSIGN_OR_RETURN(sum_, SumOfParts(dtype, p.b * p.s * p.h * p.d));
    return absl::OkStatus();
  }

  int64_t workspace_bytes() const override {
    return lengths_.bytes() + graph_bytes_ +
           (bands_.size() == 1 ? 0 : QueryBytes());
  }

  void AddTuningResults(TuningResults* results) const override {
    for (const auto& graph : graphs_) graph->AddTuningResult(results);
  }

  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) override {
    const AttentionProblem& p = problem_;
    if (keys_ < p.t) {  // the others have no gradient
      size_t keys = static_cast<size_t>(p.b * p.t * p.g) * sizeof(uint16_t);
      ASYRA_CUDA(cudaMemsetAsync(args.results[1], 0, keys * p.d, stream));
      ASYRA_CUDA(cudaMemsetAsync(args.results[2], 0, keys * p.e, stream));
    }
    std::byte* graph_work =
        static_cast<std::byte*>(args.workspace) + lengths_.bytes();
    std::array<void*, 2> dq = {args.results[0], graph_work + graph_bytes_};
    for (size_t i = 0; i < bands_.size(); ++i) {
      CudnnGraph::Pointers pointers = PointersOf(args, bands_[i], dq[i]);
      ASYRA_RETURN_IF_ERROR(lengths_.Write(args, &pointers, stream));
      ASYRA_RETURN_IF_ERROR(graphs_[i]->Enqueue(pointers, graph_work, stream));
    }
    if (bands_.size() == 1) return absl::OkStatus();
    return sum_.Enqueue(dq, {dq.data(), 1}, stream);
  }

 private:
  int64_t QueryBytes() const {
    const AttentionProblem& p = problem_;
    return p.b * p.s * p.h * p.d * static_cast<int64_t>(sizeof(uint16_t));
  }

  absl::StatusOr<std::shared_ptr<CudnnGraph>> GraphOf(
      const AttentionBand& band) const {
    const AttentionProblem& p = problem_;
    int64_t query = p.b * p.s * p.h, key = p.b * p.t * p.g;
    GraphSpec spec = {
        .key = fmt::format("attention_grad {}{}", SdpaKey(p, band),
                           lengths_.given() ? " lengths" : ""),
        .describe = [&] { return Describe(p, band, lengths_); },
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
    return CudnnGraph::Create(spec);
  }

  CudnnGraph::Pointers PointersOf(const KernelArgs& args,
                                  const AttentionBand& band, void* dq) const {
    const AttentionProblem& p = problem_;
    auto first = [&](void* keys, int64_t width) {
      return FirstKey(keys, p, band, width);
    };
    return {{kQ, args.operands[0]},
            {kK, first(args.operands[1], p.d)},
            {kV, first(args.operands[2], p.e)},
            {kY, args.operands[kGradY]},
            {kLogSumsUid, args.operands[kGradLogSums]},
            {kDy, args.operands[kGradDy]},
            {kDq, dq},
            {kDk, first(args.results[1], p.d)},
            {kDv, first(args.results[2], p.e)}};
  }

  AttentionProblem problem_;
  SdpaLengths lengths_;
  std::vector<AttentionBand> bands_;  // of one graph each
  int64_t keys_;                      // of all bands
  std::vector<std::shared_ptr<CudnnGraph>> graphs_;
  int64_t graph_bytes_ = 0;  // of the workspace of either
  GeneratedKernel sum_;      // where there are two
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
