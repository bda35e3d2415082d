// Common parts of the graphs of attention and of its gradient. Strides describe
// heads, which are between rows in memory.
#pragma once

#include <memory>
#include <string>

#include "executor/cuda/cudnn/graph.h"
#include "executor/cuda/kernels/attention_problem.h"

namespace asyra::cuda {

using TensorPtr = std::shared_ptr<fe::graph::Tensor_attributes>;

// Makes an empty graph that computes in f32.
std::shared_ptr<fe::graph::Graph> NewSdpaGraph(const AttentionProblem& p);

// [b, heads, rows, width] as cuDNN has it, of q, y and their gradients: all
// rows.
fe::graph::Tensor_attributes QueryHeads(const char* name, int64_t uid,
                                        const AttentionProblem& p,
                                        int64_t width);
// Describes k, v and their gradients: the keys of the band.
fe::graph::Tensor_attributes KeyHeads(const char* name, int64_t uid,
                                      const AttentionProblem& p,
                                      const AttentionBand& band, int64_t width);
// Describes the rows' log sums, f32.
fe::graph::Tensor_attributes LogSums(int64_t uid, const AttentionProblem& p);

// Makes a result of a graph one of its outputs, placed as `like` says.
void SetOutput(const TensorPtr& result,
               const fe::graph::Tensor_attributes& like);

// Sets the band of fe::graph::SDPA_attributes or SDPA_backward_attributes.
template <typename Attributes>
void SetBand(const AttentionBand& band, Attributes* attributes) {
  if (!band.left && !band.right) return;
  attributes->set_diagonal_alignment(band.bottom_right
                                         ? fe::DiagonalAlignment_t::BOTTOM_RIGHT
                                         : fe::DiagonalAlignment_t::TOP_LEFT);
  if (band.left) attributes->set_diagonal_band_left_bound(*band.left);
  if (band.right) attributes->set_diagonal_band_right_bound(*band.right);
}

// The keys of each batch entry, which hide those behind them: numbers of rows
// and keys as cuDNN takes them, at the beginning of the workspace.
class SdpaLengths {
 public:
  SdpaLengths(const AttentionProblem& problem, int operand)
      : problem_(problem), operand_(operand) {}
  bool given() const { return operand_ >= 0; }
  int64_t bytes() const;  // of the workspace, aligned; 0: not given

  // Adds them, if they are given, to a graph, to its values and to the
  // pointers of a launch, which enqueues their making.
  template <typename Attributes>
  void Describe(fe::graph::Graph& graph, Attributes* attributes) const {
    if (!given()) return;
    attributes->set_padding_mask(true)
        .set_seq_len_q(graph.tensor(Tensor("rows", kRowsUid)))
        .set_seq_len_kv(graph.tensor(Tensor("keys", kKeysUid)));
  }
  void AddTo(std::vector<GraphValue>* values) const;
  absl::Status Write(const KernelArgs& args, CudnnGraph::Pointers* pointers,
                     cudaStream_t stream) const;

 private:
  // Numbers that no tensor of the graphs has.
  static constexpr int64_t kRowsUid = 100, kKeysUid = 101;
  fe::graph::Tensor_attributes Tensor(const char* name, int64_t uid) const;

  AttentionProblem problem_;
  int operand_;  // -1: none
};

// Identifies shapes, scale and band.
std::string SdpaKey(const AttentionProblem& p, const AttentionBand& band);

// Returns the first key of the band, of an operand [b, t, g, width] of 16-bit
// elements.
void* FirstKey(void* keys, const AttentionProblem& p, const AttentionBand& band,
               int64_t width);

}  // namespace asyra::cuda
