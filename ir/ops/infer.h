// Checks and loops that several op definitions share.
#pragma once

#include <algorithm>
#include <vector>

#include "absl/status/statusor.h"
#include "fmt/format.h"
#include "ir/op_def.h"
#include "ir/support/status.h"

namespace asyra::ops {

// NumPy's rule, right aligned. Error: "operand 1 has shape [..], which does
// not broadcast with [..]".
absl::StatusOr<Shape> BroadcastShapes(absl::Span<const Type> types);
// All operands have one element type.
absl::Status RequireSameDType(const OpCall& call);
absl::Status RequireFloat(const OpCall& call, int operand);
absl::Status RequireInteger(const OpCall& call, int operand);
absl::Status RequireRank(const OpCall& call, int operand, int least);
// Attribute `name` as a dimension of a type of that rank.
absl::StatusOr<int> RequireDim(const OpCall& call, std::string_view name,
                               int rank);

// Infers a result like operand 0.
absl::StatusOr<std::vector<Type>> SameAsFirst(const OpCall& call);

// Where element `index` of a result of shape `to` comes from in an operand
// that broadcasts to it.
class BroadcastIndex {
 public:
  BroadcastIndex(const Shape& from, const Shape& to);
  int64_t operator()(int64_t index) const;

 private:
  Shape to_;
  Shape strides_;  // 0 where broadcast
  bool identity_;
};

// [outer, size, inner]: a shape seen from one of its dimensions.
struct Along {
  int64_t outer = 1, size = 1, inner = 1;
  Along(const Shape& shape, int dim) : size(shape[dim]) {
    for (int i = 0; i < dim; ++i) outer *= shape[i];
    for (size_t i = dim + 1; i < shape.size(); ++i) inner *= shape[i];
  }
};

}  // namespace asyra::ops
