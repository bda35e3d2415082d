#include "ir/ops/infer.h"

namespace asyra::ops {

absl::StatusOr<Shape> BroadcastShapes(absl::Span<const Type> types) {
  Shape shape;
  for (size_t i = 0; i < types.size(); ++i) {
    Shape next = types[i].shape();
    while (next.size() < shape.size()) next.insert(next.begin(), 1);
    while (shape.size() < next.size()) shape.insert(shape.begin(), 1);
    for (size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] == 1) {
        shape[d] = next[d];
      } else if (next[d] != 1 && next[d] != shape[d]) {
        return Invalid("operand {} has shape {}, it does not broadcast with {}",
                       i, ShapeToString(types[i].shape()),
                       ShapeToString(shape));
      }
    }
  }
  return shape;
}

absl::Status RequireSameDType(const OpCall& call) {
  for (size_t i = 1; i < call.operands.size(); ++i) {
    if (call.operands[i].dtype != call.operands[0].dtype) {
      return Invalid("operand 0 is {}, operand {} is {}",
                     ToString(call.operands[0].dtype), i,
                     ToString(call.operands[i].dtype));
    }
  }
  return absl::OkStatus();
}

absl::Status RequireFloat(const OpCall& call, int operand) {
  DType dtype = call.operands[operand].dtype;
  if (IsFloat(dtype)) return absl::OkStatus();
  return Invalid("operand {} is {}, it should be a float type", operand,
                 ToString(dtype));
}

absl::Status RequireInteger(const OpCall& call, int operand) {
  DType dtype = call.operands[operand].dtype;
  if (IsInteger(dtype)) return absl::OkStatus();
  return Invalid("operand {} is {}, it should be i32 or i64", operand,
                 ToString(dtype));
}

absl::Status RequireRank(const OpCall& call, int operand, int least) {
  int rank = call.operands[operand].rank();
  if (rank >= least) return absl::OkStatus();
  return Invalid("operand {} has rank {}, at least {} is needed", operand, rank,
                 least);
}

absl::StatusOr<int> RequireDim(const OpCall& call, std::string_view name,
                               int rank) {
  int64_t given = call.attrs.Int(name);
  int dim = NormalizeDim(given, rank);
  if (dim < 0) return Invalid("{} is {}, the rank is {}", name, given, rank);
  return dim;
}

absl::StatusOr<std::vector<Type>> SameAsFirst(const OpCall& call) {
  return std::vector<Type>{call.operands[0]};
}

BroadcastIndex::BroadcastIndex(const Shape& from, const Shape& to)
    : to_(to), strides_(to.size(), 0), identity_(from == to) {
  int64_t stride = 1;
  for (size_t i = 0; i < from.size(); ++i) {
    size_t d = from.size() - 1 - i;
    if (from[d] != 1) strides_[to.size() - 1 - i] = stride;
    stride *= from[d];
  }
}

int64_t BroadcastIndex::operator()(int64_t index) const {
  if (identity_) return index;
  int64_t from = 0;
  for (size_t i = to_.size(); i-- > 0;) {
    from += index % to_[i] * strides_[i];
    index /= to_[i];
  }
  return from;
}

}  // namespace asyra::ops
