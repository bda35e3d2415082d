// Follows values that walk between devices (attribute `shift` of attention):
// whose part a device has of each value, and what sums of gradients consist of.
#pragma once

#include <vector>

#include "ir/program.h"

namespace asyra {

// Runs of a dimension that an op has put into another order.
struct RunOrder {
  const OpDef* op = nullptr;  // stripe or unstripe
  int64_t pairs = 0;
  int64_t size = 0;  // of the dimension
  friend bool operator==(const RunOrder& a, const RunOrder& b) {
    return a.op == b.op && a.pairs == b.pairs && a.size == b.size;
  }
};

// A result of an attention_grad, by the op's number.
struct GradientPart {
  int op = 0;
  int result = 0;
  friend auto operator<=>(const GradientPart&, const GradientPart&) = default;
};

struct Walk {
  // A device has its own part; that of the device `by` places before it along
  // `axes`; or nobody knows whose.
  enum Kind : uint8_t { kInPlace, kWalked, kUnknown } kind = kInPlace;
  AxisList axes;
  int64_t by = 0;
  // The value whose parts they are, before it walked and each device cut or
  // reordered its own.
  ValueId root = kNoValue;
  // Since the last gather, or the op that computes a gradient.
  AxisList gathered;
  std::vector<RunOrder> order;
  // The parts that the value is the sum of, ascending; none: not followed.
  std::vector<GradientPart> sum;

  bool IsKnown() const { return kind != kUnknown; }
};

// Returns whether the op is attention, or its gradients, with one shard of the
// keys.
bool HasKeyShard(const Op& op);
bool IsKeyGradient(const Op& op);  // of q, k and v, with one shard of the keys

// Returns the walk of each value. An input is in place, as is what an op makes
// of values in place, and each row of attention where its query is. Gradients
// of keys are where the keys came to. Unknown is what an op that mixes devices
// makes of values that walked.
std::vector<Walk> FollowWalks(const Program& program);

}  // namespace asyra
