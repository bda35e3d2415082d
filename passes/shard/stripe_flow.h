// The dimensions whose order StripeSequence renames (stripes.h).
#pragma once

#include <compare>
#include <cstdint>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/axis_rule.h"
#include "ir/program.h"

namespace asyra {

// A sequence within a dimension of a value: [batch*tokens, features] has tokens
// in dimension 0, and `inner` = 1 elements of it between neighbours.
struct SequencePlace {
  int dim = 0;
  int64_t inner = 1;
  int64_t size = 0;
  auto operator<=>(const SequencePlace&) const = default;
};
using SequencePlaces = std::set<SequencePlace>;

struct StripeFlow {
  // Finds them for so many devices, from the rows of attentions on.
  static absl::StatusOr<StripeFlow> Of(const Program& program, int64_t devices);

  // Returns whether there is such an attention.
  bool finds() const;
  // Returns the places where the op takes operand k, or gives result k, in
  // stripes.
  SequencePlaces OfOperand(int op, int k) const;
  SequencePlaces OfResult(int op, int k) const;

  std::vector<AxisRule> rules;              // by op
  std::vector<std::set<FactorId>> striped;  // factors of its rule, by op
  // Attentions whose rows become two ops, by op.
  std::vector<bool> halved;
};

}  // namespace asyra
