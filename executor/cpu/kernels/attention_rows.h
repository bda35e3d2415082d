// Rows of attention scores (ir/ops/attention.h) in single precision: what
// attention and its gradients have in common.
#pragma once

#include <vector>

#include "executor/cpu/kernel_list.h"
#include "executor/cpu/workspace.h"
#include "ir/ops/attention.h"

namespace asyra::cpu {

class AttentionRows {
 public:
  // Mask, lengths, sinks and starts are among the operands from `first_extra`
  // on.
  AttentionRows(const KernelUse& use, int first_extra);

  const ops::AttentionSizes& sizes() const { return sizes_; }
  const ops::AttentionExtras& extras() const { return extras_; }
  int64_t KvHead(int64_t h) const { return h / (sizes_.h / sizes_.kv_heads); }
  // First elements of the rows of a head.
  int64_t OfQuery(int64_t b, int64_t h, int64_t size) const {
    return (b * sizes_.s * sizes_.h + h) * size;
  }
  int64_t OfKey(int64_t b, int64_t h, int64_t size) const {
    return (b * sizes_.t * sizes_.kv_heads + KvHead(h)) * size;
  }

  // Reserves workspace to convert operands that are not in single precision.
  void LayOut(WorkspaceLayout* layout);
  // Returns the operand in single precision; in the workspace when it is not so
  // already.
  const float* Operand(const KernelArgs& args, int i) const;

  // Operands that the rows of a step share.
  struct Extras {
    const float* mask = nullptr;  // added to scores; bool: 0 hides the key
    const float* sinks = nullptr;
    const void *lengths = nullptr, *starts = nullptr;
  };
  Extras ExtrasOf(const KernelArgs& args) const;

  // One row of one head.
  struct Row {
    int64_t b, h, s;
  };
  // Products of a row of q with all keys become weights. Gives the row's log
  // sum (ir/ops/attention.h).
  float Weights(const Row& row, const Extras& extras, float* scores) const;
  // The same by a log sum that is known. Gives the weight that a sink takes.
  // `slopes` becomes the derivative of each score by its dot product.
  float WeightsFrom(float log_sum, const Row& row, const Extras& extras,
                    float* scores, float* slopes) const;
  // Returns the position of the mask's element of a row and key 0, and the step
  // to the next.
  int64_t MaskElement(const Row& row) const {
    return row.b * mask_strides_[0] + row.h * mask_strides_[1] +
           row.s * mask_strides_[2];
  }
  int64_t mask_step() const { return mask_strides_[3]; }

 private:
  // Products of a row become scores. Gives the largest.
  float Scores(const Row& row, const Extras& extras, float* scores,
               float* slopes) const;

  struct OperandPlan {
    DType dtype;
    int64_t elements;
    int64_t at;  // of its conversion in the workspace; -1: there is none
  };
  // Returns the score of key t from its dot product with the row at position
  // `place`. `added` is the mask's element.
  float Score(float product, int64_t place, int64_t t, const float* added,
              float* slope) const;
  int64_t LengthOf(const Extras& extras, int64_t b) const;
  // Returns the place of the first key that a row sees, apart from windows.
  int64_t StartOf(const Row& row, const Extras& extras) const;
  // Returns the position of a row among the keys.
  int64_t Place(const Row& row, const Extras& extras) const;
  bool SeesFrom(int64_t place, int64_t t) const {
    int64_t key = keys_.Place(t);
    return (window_after_ == 0 || key < place + window_after_) &&
           (window_ == 0 || key > place - window_);
  }

  ops::AttentionSizes sizes_;
  ops::AttentionExtras extras_;
  int64_t window_, window_after_;
  float scale_, softcap_, hidden_;
  bool empty_is_nan_;
  bool mask_is_bool_ = false;
  int64_t offset_, start_;  // of the first row: the place, the number
  int64_t runs_;
  ops::KeyShard keys_;
  bool at_end_;
  int64_t rows_in_all_;  // of queries, over all ranks
  std::vector<OperandPlan> operands_;
  Shape mask_strides_;
};

// True if q, k and v are not empty and have at most single precision, and the
// keys of one shard at most.
bool SupportsAttention(const KernelUse& use);

}  // namespace asyra::cpu
