// What the graphs of attention and of its gradient have in common. Strides
// describe heads, which are between rows in memory.
#pragma once

#include <memory>
#include <string>

#include "executor/cuda/cudnn/graph.h"
#include "executor/cuda/kernels/attention_problem.h"

namespace asyra::cuda {

using TensorPtr = std::shared_ptr<fe::graph::Tensor_attributes>;

// An empty graph that computes in f32.
std::shared_ptr<fe::graph::Graph> NewSdpaGraph(const AttentionProblem& p);

// [b, heads, rows, width] as cuDNN has it, of q, y and their gradients: all
// rows.
fe::graph::Tensor_attributes QueryHeads(const char* name, int64_t uid,
                                        const AttentionProblem& p,
                                        int64_t width);
// Of k, v and their gradients: the keys of the band.
fe::graph::Tensor_attributes KeyHeads(const char* name, int64_t uid,
                                      const AttentionProblem& p,
                                      const AttentionBand& band, int64_t width);
// The rows' log sums, f32.
fe::graph::Tensor_attributes LogSums(int64_t uid, const AttentionProblem& p);

// Makes a result of a graph one of its outputs, placed as `like` says.
void SetOutput(const TensorPtr& result,
               const fe::graph::Tensor_attributes& like);

// Of fe::graph::SDPA_attributes or SDPA_backward_attributes.
template <typename Attributes>
void SetBand(const AttentionBand& band, Attributes* attributes) {
  if (!band.left && !band.right) return;
  attributes->set_diagonal_alignment(band.bottom_right
                                         ? fe::DiagonalAlignment_t::BOTTOM_RIGHT
                                         : fe::DiagonalAlignment_t::TOP_LEFT);
  if (band.left) attributes->set_diagonal_band_left_bound(*band.left);
  if (band.right) attributes->set_diagonal_band_right_bound(*band.right);
}

// Numbers of rows or keys of each batch entry, i32.
fe::graph::Tensor_attributes Lengths(const char* name, int64_t uid,
                                     int64_t batch);
// Hides the keys behind an entry's length. `rows` and `keys` are Lengths.
template <typename Attributes>
void SetLengths(const TensorPtr& rows, const TensorPtr& keys,
                Attributes* attributes) {
  attributes->set_padding_mask(true).set_seq_len_q(rows).set_seq_len_kv(keys);
}

// Identifies shapes, scale and band.
std::string SdpaKey(const AttentionProblem& p, const AttentionBand& band);

// The first key of the band, of an operand [b, t, g, width] of 16-bit elements.
void* FirstKey(void* keys, const AttentionProblem& p, const AttentionBand& band,
               int64_t width);

}  // namespace asyra::cuda
