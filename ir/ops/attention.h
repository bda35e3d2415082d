// Shared by attention and its gradients: operands, and the weights of a row.
//
// The score of query i and key t is
//   hidden          where causal, a window or a bool mask hides the key,
//   c tanh(s / c)   elsewhere, s = scale q k^T, or s itself without softcap,
// a float mask is added to either, and keys beyond the length or before the
// row's start score -inf.
// Scores are rounded to f32 (f64 for f64) before and after that addition, as on
// devices: adding -1e9 to all scores of a row rounds them to multiples of 64,
// adding the lowest f32 leaves nothing of them.
// Weights are the softmax of the scores; a NaN among these gives NaN. Where all
// are -inf softmax has no value: the row gives 0, or NaN with `empty_is_nan`.
// Beside a sink it gives 0, which is what the weights then are.
//
// The log sum of a row is log(sum of exp(score)), of its sink too: weights are
// exp(score - log sum). It is inf where the row gives 0, NaN where that is NaN.
// Being f32 (f64 for f64), it is as inexact as the scores: next to scores of
// -1e9 it loses the number of keys, and the gradient of such a row is a
// multiple of what it should be.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/ops/attention_places.h"
#include "ir/ops/infer.h"

namespace asyra::ops {

// The highest score that is as good as -inf next to any other: the lowest
// number of f16, which exporters write.
inline constexpr double kAsGoodAsHidden = -65504;

// The operands from number `first` on, any of which may be left out; types
// distinguish them; -1 where there is none. A mask has rank 4 and is bool or
// float, lengths are integers [B], sinks floats [H], and starts integers [B,
// S]: the first key that each row sees, that of its document where several
// follow each other.
struct AttentionExtras {
  int mask = -1, lengths = -1, sinks = -1, starts = -1;
  AttentionExtras(absl::Span<const Type> operands, int first);
};

// The attributes of attention, and of its gradients with others after them.
std::vector<AttrDef> AttentionAttrs();
// Refuses q, k, v, what comes from operand `first` on, and attributes that do
// not fit.
absl::Status CheckAttention(const OpCall& call, int first);
// Rows and keys for an axis rule, by attribute `shards`.
std::string RowSpec(const OpCall& call, bool positional);
std::string KeySpec(const OpCall& call);
// The operands from `first` on for an axis rule, each after ", ".
std::string ExtraSpecs(const OpCall& call, int first);
// One of them, by its number.
std::string ExtraSpec(const OpCall& call, int operand);
// One row of weights after the other, on one device.
class AttentionRows {
 public:
  AttentionRows(const RefCall& call, int first);

  const AttentionSizes& sizes() const { return sizes_; }
  const std::vector<double>& q() const { return q_; }
  const std::vector<double>& k() const { return k_; }
  const std::vector<double>& v() const { return v_; }
  // Row numbers in q (times D, or E in the result), k and v.
  int64_t QueryRow(int64_t b, int64_t s, int64_t h) const {
    return (b * sizes_.s + s) * sizes_.h + h;
  }
  int64_t KeyRow(int64_t b, int64_t t, int64_t h) const {
    return (b * sizes_.t + t) * sizes_.kv_heads +
           h / (sizes_.h / sizes_.kv_heads);
  }
  int64_t MaskElement(int64_t b, int64_t s, int64_t h, int64_t t) const {
    return ((b * sizes_.h + h) * sizes_.s + s) * sizes_.t + t;
  }

  // Computes weights() and slopes() of a row; false where it gives 0 because
  // all of its scores are -inf.
  bool Compute(int64_t b, int64_t s, int64_t h);
  // The same by a log sum that is known: exp(score - log_sum).
  void ComputeFrom(double log_sum, int64_t b, int64_t s, int64_t h);
  // Returns the weight of each key; with sink_weight() they sum up to 1.
  const std::vector<double>& weights() const { return weights_; }
  double sink_weight() const { return sink_weight_; }
  // Returns the log sum of the row, as the head of this file says.
  double log_sum() const { return log_sum_; }
  // Returns the derivative of each score, before masks, by the product of query
  // and key; 0 where the key is hidden.
  const std::vector<double>& slopes() const { return slopes_; }

 private:
  double Rounded(double score) const;
  void SetPlaces(const RefCall& call);
  // Returns whether the row sees the key, apart from masks and lengths.
  bool Sees(int64_t b, int64_t s, int64_t t) const;
  // Returns the product of query and key, before masks.
  double Product(int64_t b, int64_t s, int64_t h, int64_t t,
                 double* slope) const;
  double Score(int64_t b, int64_t s, int64_t h, int64_t t);

  AttentionSizes sizes_;
  int64_t window_, window_after_;
  double scale_, softcap_, hidden_;
  bool single_;  // scores are f32
  bool empty_is_nan_;
  bool mask_is_bool_ = false;
  // By batch and by row, in places among the keys: the sum is the row's.
  std::vector<int64_t> first_places_, rows_;
  // By key, its place; by row and by key, the shard (attribute `shards`).
  std::vector<int64_t> key_places_, row_shards_, key_shards_;
  std::vector<int64_t> lengths_, starts_;
  std::vector<double> q_, k_, v_, mask_, sinks_;
  std::optional<StridedIndex> mask_index_;
  std::vector<double> weights_, slopes_;
  double sink_weight_ = 0, log_sum_ = 0;
};

}  // namespace asyra::ops
