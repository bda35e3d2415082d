// Sequences of tensors with known length: the importer splits them into
// tensors.
#include "frontends/onnx/ops/ops.h"

namespace asyra::onnx_import::ops {
namespace {

absl::StatusOr<std::vector<Value>> Parts(Node& node) {
  if (!node.In(0).is_sequence()) return Invalid("input 0 is not a sequence");
  return node.In(0).parts();
}

// A position at `input` in a sequence, of which `count` places exist.
absl::StatusOr<size_t> Position(Node& node, int input, size_t count) {
  ASYRA_ASSIGN_OR_RETURN(Ints position, node.KnownInts(input, "position"));
  auto size = static_cast<int64_t>(count);
  if (position.size() != 1) return Invalid("{} positions", position.size());
  int64_t at = position[0] < 0 ? position[0] + size : position[0];
  if (at < 0 || at >= size) {
    return Invalid("position {} of a sequence of {}", position[0], size);
  }
  return static_cast<size_t>(at);
}

}  // namespace

absl::Status SplitToSequence(Node& node) {
  ASYRA_ASSIGN_OR_RETURN(int dim, DimOf(node.Int("axis", 0), node.rank()));
  int64_t size = node.type().size(dim);
  bool keep = node.Int("keepdims", 1) != 0;
  Ints sizes;
  if (node.Has(1)) {
    ASYRA_ASSIGN_OR_RETURN(sizes, node.KnownInts(1, "split"));
  }
  if (!node.Has(1) || node.rank(1) == 0) {
    int64_t each = node.Has(1) ? sizes[0] : 1;
    if (each < 1) return Invalid("parts of size {}", each);
    // The importer writes every part out.
    if (size / each > 4096) {
      return Unimplemented("{} parts of size {}", size / each, each);
    }
    sizes.clear();
    for (int64_t at = 0; at < size; at += each) {
      sizes.push_back(std::min(each, size - at));
    }
  }
  ASYRA_ASSIGN_OR_RETURN(std::vector<Value> parts,
                         SplitAlong(node, dim, sizes));
  if (!node.Has(1) && !keep) {
    for (Value& part : parts) {
      asyra::Shape shape = part.shape();
      shape.erase(shape.begin() + dim);
      ASYRA_ASSIGN_OR_RETURN(part, node.graph().Reshape(part, shape));
    }
  }
  return node.Return(Value::Sequence(std::move(parts)));
}

absl::Status SequenceAt(Node& node) {
  ASYRA_ASSIGN_OR_RETURN(std::vector<Value> parts, Parts(node));
  ASYRA_ASSIGN_OR_RETURN(size_t at, Position(node, 1, parts.size()));
  return node.Return(parts[at]);
}

absl::Status SequenceConstruct(Node& node) {
  return node.Return(Value::Sequence(node.Inputs()));
}

absl::Status SequenceEmpty(Node& node) {
  node.Ignore("dtype");
  return node.Return(Value::Sequence({}));
}

absl::Status SequenceErase(Node& node) {
  ASYRA_ASSIGN_OR_RETURN(std::vector<Value> parts, Parts(node));
  if (parts.empty()) return Invalid("the sequence is empty");
  size_t at = parts.size() - 1;
  if (node.Has(1)) {
    ASYRA_ASSIGN_OR_RETURN(at, Position(node, 1, parts.size()));
  }
  parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at));
  return node.Return(Value::Sequence(std::move(parts)));
}

absl::Status SequenceInsert(Node& node) {
  ASYRA_ASSIGN_OR_RETURN(std::vector<Value> parts, Parts(node));
  if (node.In(1).is_sequence()) return Invalid("input 1 is a sequence");
  size_t at = parts.size();
  if (node.Has(2)) {
    // The position after the last one is also valid, but negative positions do
    // not count from there.
    ASYRA_ASSIGN_OR_RETURN(Ints position, node.KnownInts(2, "position"));
    bool last = position.size() == 1 && position[0] >= 0 &&
                static_cast<size_t>(position[0]) == parts.size();
    if (!last) {
      ASYRA_ASSIGN_OR_RETURN(at, Position(node, 2, parts.size()));
    }
  }
  parts.insert(parts.begin() + static_cast<std::ptrdiff_t>(at), node.In(1));
  return node.Return(Value::Sequence(std::move(parts)));
}

absl::Status SequenceLength(Node& node) {
  ASYRA_ASSIGN_OR_RETURN(std::vector<Value> parts, Parts(node));
  return node.Return(Value::Known(
      Tensor::FromInts(DType::kI64, {}, {static_cast<int64_t>(parts.size())})));
}

absl::Status ConcatFromSequence(Node& node) {
  if (!node.HasAttr("axis")) return Invalid("attribute axis is missing");
  ASYRA_ASSIGN_OR_RETURN(std::vector<Value> parts, Parts(node));
  return node.Return(
      Joined(node, parts, node.Int("axis", 0), node.Int("new_axis", 0) != 0));
}

}  // namespace asyra::onnx_import::ops
