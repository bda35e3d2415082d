// The gather-the-weights form of a mixture of experts: every choice of a token
// is a row that has its own copy of its expert's weights,
//
//   sum over choices of weight * f(repeated token, gather(W, expert)).
//
// Here f is expressed on the slots of moe_dispatch, where the weights of an
// expert exist once and one matmul applies them to all its tokens.
#pragma once

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "ir/ops/moe_slots.h"
#include "passes/rewrite/rewriter.h"

namespace asyra {

class ExpertLifter {
 public:
  // Reads `from`; adds to `to`, which has copied what comes before the sum.
  // Slots as SlotsFor says.
  ExpertLifter(const Program& from, const DefUse& def_use,
               int64_t capacity_percent, Rewriter& to)
      : from_(from), def_use_(def_use), percent_(capacity_percent), to_(to) {}

  // Returns the replacement of a reduce_sum over the choices of tokens, or
  // kNoValue if `from` does not match. Ops that were added before a mismatch
  // are dead.
  absl::StatusOr<ValueId> Lift(const Op& sum);

 private:
  // A value whose leading dimensions are the choices in row-major order; what
  // follows them belongs to a row.
  struct Rows {
    int lead = -1;  // leading dimensions; -1: it is no such value
    Shape row;
  };
  Rows RowsOf(ValueId value) const;
  const Op* Def(ValueId value) const;
  const Op* Def(ValueId value, std::string_view op) const;
  ValueId WithoutReshapes(ValueId value) const;

  // Reading.
  bool FindSources(ValueId body);
  bool ReadGather(ValueId value, ValueId* table, ValueId* indices) const;
  ValueId ExpertsOf(ValueId indices) const;
  bool IsWeights(ValueId value, ValueId* table) const;
  ValueId RepeatedTokens(ValueId value) const;

  // Adding ops. All return kNoValue for an op that does not work row by row.
  absl::StatusOr<ValueId> LiftSum(const Op& sum, ValueId body, ValueId scale);
  absl::Status Dispatch();
  absl::StatusOr<bool> Route(ValueId scale, ValueId* weights);
  absl::StatusOr<ValueId> LiftValue(ValueId value);
  absl::StatusOr<ValueId> LiftOp(const Op& op, ValueId value);
  absl::StatusOr<ValueId> LiftMatmul(const Op& op, ValueId value);
  absl::StatusOr<ValueId> LiftElementwise(const Op& op, ValueId value);
  absl::StatusOr<ValueId> LiftOperand(ValueId operand, size_t row_rank);
  Shape Slots(const Shape& row) const;  // [..., expert, slot, row...]
  Shape Choices() const;                // [..., tokens, chosen]

  const Program& from_;
  const DefUse& def_use_;
  int64_t percent_;
  Rewriter& to_;

  // State of the sum being lifted.
  int64_t rows_ = 0, chosen_ = 0, num_experts_ = 0;
  ValueId experts_ = kNoValue;  // choices, in from_
  ValueId tokens_ = kNoValue;   // [lead_..., hidden], in from_
  Shape lead_;                  // [..., tokens]
  MoeSlots slots_;
  ValueId new_experts_ = kNoValue;
  ValueId dispatched_ = kNoValue;
  absl::flat_hash_map<ValueId, ValueId> lifted_;
};

}  // namespace asyra
