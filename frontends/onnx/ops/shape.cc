// The same elements under another shape, and parts.
#include <set>

#include "frontends/onnx/ops/ops.h"

namespace asyra::onnx_import::ops {
namespace {

// Dimensions `axes` of a value of that rank, counted from the front.
absl::StatusOr<std::set<int>> DimsOf(const Ints& axes, int rank) {
  std::set<int> dims;
  for (int64_t axis : axes) {
    ASYRA_ASSIGN_OR_RETURN(int dim, DimOf(axis, rank));
    if (!dims.insert(dim).second)
      return Invalid("axis {} is given twice", axis);
  }
  return dims;
}

// `count` parts of equal size, the last one smaller where it does not divide.
Ints EqualParts(int64_t size, int64_t count) {
  Ints sizes;
  int64_t each = (size + count - 1) / count;
  for (int64_t i = 0; i < count; ++i) {
    sizes.push_back(std::clamp(size - i * each, int64_t{0}, each));
  }
  return sizes;
}

}  // namespace

absl::StatusOr<std::vector<Value>> SplitAlong(Node& node, int dim,
                                              const Ints& sizes) {
  std::vector<Value> parts;
  int64_t start = 0, size = node.type().size(dim);
  for (int64_t part : sizes) {
    if (part < 0 || part > size - start) {
      return Invalid("part {} of size {} does not fit into dim {} of size {}",
                     parts.size(), part, dim, size);
    }
    ASYRA_ASSIGN_OR_RETURN(
        Value value, node.graph().Slice(node.In(0), dim, start, start + part));
    parts.push_back(std::move(value));
    start += part;
  }
  if (start != size) {
    return Invalid("the parts have {} rows together, dim {} has size {}", start,
                   dim, size);
  }
  return parts;
}

absl::StatusOr<Value> Joined(Node& node, std::vector<Value> parts, int64_t axis,
                             bool new_axis) {
  if (parts.empty()) return Invalid("there is nothing to concatenate");
  for (Value& part : parts) {
    if (part.is_sequence()) return Invalid("a part is a sequence");
    if (!new_axis) continue;
    ASYRA_ASSIGN_OR_RETURN(int dim, DimOf(axis, part.rank() + 1));
    asyra::Shape shape = part.shape();
    shape.insert(shape.begin() + dim, 1);
    ASYRA_ASSIGN_OR_RETURN(part, node.graph().Reshape(part, shape));
  }
  ASYRA_ASSIGN_OR_RETURN(int dim, DimOf(axis, parts[0].rank()));
  if (parts.size() == 1) return parts[0];
  return node.graph().Add("concat", parts, {{"dim", int64_t{dim}}});
}

absl::Status Concat(Node& node) {
  if (!node.HasAttr("axis")) return Invalid("attribute axis is missing");
  return node.Return(Joined(node, node.Inputs(), node.Int("axis", 0), false));
}

absl::Status Expand(Node& node) {
  ASYRA_ASSIGN_OR_RETURN(Ints to, node.KnownInts(1, "shape"));
  asyra::Shape from = node.In(0).shape();
  // Both sides broadcast: a 1 in `shape` keeps the dimension.
  int64_t rank = std::max(from.size(), to.size());
  Ints shape(rank, 1);
  std::copy(to.begin(), to.end(), shape.end() - to.size());
  for (size_t i = 0; i < from.size(); ++i) {
    int64_t& size = shape[rank - from.size() + i];
    if (size == 1) size = from[i];
  }
  return node.Return(node.graph().Broadcast(node.In(0), shape));
}

absl::Status Flatten(Node& node) {
  asyra::Shape shape = node.In(0).shape();
  int64_t axis = node.Int("axis", 1), rank = node.rank();
  if (axis < 0) axis += rank;
  if (axis < 0 || axis > rank) {
    return Invalid("axis {} of a value of rank {}", axis, rank);
  }
  absl::Span<const int64_t> sizes = shape;
  return node.Return(node.graph().Reshape(
      node.In(0),
      {NumElements(sizes.subspan(0, axis)), NumElements(sizes.subspan(axis))}));
}

absl::Status Reshape(Node& node) {
  ASYRA_ASSIGN_OR_RETURN(Ints shape, node.KnownInts(1, "shape"));
  bool allow_zero = node.Int("allowzero", 0) != 0;
  int64_t elements = node.type().num_elements(), rest = 1;
  int open = -1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0 && !allow_zero) {
      if (static_cast<int>(i) >= node.rank()) {
        return Invalid("shape[{}] is 0, the input has rank {}", i, node.rank());
      }
      shape[i] = node.type().size(static_cast<int>(i));
    }
    if (shape[i] == -1 && open < 0) {
      open = static_cast<int>(i);
    } else if (shape[i] < 0 || __builtin_mul_overflow(rest, shape[i], &rest)) {
      return Invalid("the input has {} elements, the shape is {}", elements,
                     ShapeToString(shape));
    }
  }
  if (open >= 0) {
    if (rest == 0 && elements == 0) {
      return Invalid("the -1 in shape {} may be any size, there are 0 elements",
                     ShapeToString(shape));
    }
    if (rest == 0 || elements % rest != 0) {
      return Invalid("{} elements do not fit shape {}", elements,
                     ShapeToString(shape));
    }
    shape[open] = elements / rest;
  } else if (rest != elements) {
    return Invalid("the input has {} elements, shape {} has {}", elements,
                   ShapeToString(shape), rest);
  }
  return node.Return(node.graph().Reshape(node.In(0), shape));
}

absl::Status Slice(Node& node) {
  ASYRA_ASSIGN_OR_RETURN(Ints starts, node.KnownInts(1, "starts"));
  ASYRA_ASSIGN_OR_RETURN(Ints ends, node.KnownInts(2, "ends"));
  Ints axes(starts.size()), steps(starts.size(), 1);
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int64_t>(i);
  if (node.Has(3)) {
    ASYRA_ASSIGN_OR_RETURN(axes, node.KnownInts(3, "axes"));
  }
  if (node.Has(4)) {
    ASYRA_ASSIGN_OR_RETURN(steps, node.KnownInts(4, "steps"));
  }
  if (ends.size() != starts.size() || axes.size() != starts.size() ||
      steps.size() != starts.size()) {
    return Invalid("{} starts, {} ends, {} axes, {} steps", starts.size(),
                   ends.size(), axes.size(), steps.size());
  }
  Value value = node.In(0);
  for (size_t i = 0; i < axes.size(); ++i) {
    ASYRA_ASSIGN_OR_RETURN(int dim, DimOf(axes[i], value.rank()));
    ASYRA_ASSIGN_OR_RETURN(
        value, node.graph().Slice(value, dim, starts[i], ends[i], steps[i]));
  }
  return node.Return(value);
}

absl::Status Split(Node& node) {
  ASYRA_ASSIGN_OR_RETURN(int dim, DimOf(node.Int("axis", 0), node.rank()));
  Ints sizes;
  if (node.Has(1)) {
    ASYRA_ASSIGN_OR_RETURN(sizes, node.KnownInts(1, "split"));
  } else {
    int64_t parts = node.Int("num_outputs", node.num_outputs());
    if (parts != node.num_outputs()) {
      return Invalid("num_outputs is {}, the node has {}", parts,
                     node.num_outputs());
    }
    sizes = EqualParts(node.type().size(dim), parts);
  }
  if (static_cast<int>(sizes.size()) != node.num_outputs()) {
    return Invalid("{} parts, but {} outputs", sizes.size(),
                   node.num_outputs());
  }
  ASYRA_ASSIGN_OR_RETURN(std::vector<Value> parts,
                         SplitAlong(node, dim, sizes));
  for (size_t i = 0; i < parts.size(); ++i) {
    ASYRA_RETURN_IF_ERROR(node.SetOutput(static_cast<int>(i), parts[i]));
  }
  return absl::OkStatus();
}

absl::Status Squeeze(Node& node) {
  std::set<int> dims;
  if (node.Has(1)) {
    ASYRA_ASSIGN_OR_RETURN(Ints axes, node.KnownInts(1, "axes"));
    ASYRA_ASSIGN_OR_RETURN(dims, DimsOf(axes, node.rank()));
  } else {
    for (int i = 0; i < node.rank(); ++i) {
      if (node.type().size(i) == 1) dims.insert(i);
    }
  }
  asyra::Shape shape;
  for (int i = 0; i < node.rank(); ++i) {
    if (dims.count(i) == 0) {
      shape.push_back(node.type().size(i));
    } else if (node.type().size(i) != 1) {
      return Invalid("dim {} has size {}, it should be 1", i,
                     node.type().size(i));
    }
  }
  return node.Return(node.graph().Reshape(node.In(0), shape));
}

absl::Status Unsqueeze(Node& node) {
  ASYRA_ASSIGN_OR_RETURN(Ints axes, node.KnownInts(1, "axes"));
  int rank = node.rank() + static_cast<int>(axes.size());
  ASYRA_ASSIGN_OR_RETURN(std::set<int> dims, DimsOf(axes, rank));
  asyra::Shape shape = node.In(0).shape();
  for (int dim : dims) shape.insert(shape.begin() + dim, 1);
  return node.Return(node.graph().Reshape(node.In(0), shape));
}

absl::Status Transpose(Node& node) {
  Ints perm = node.IntList("perm");
  if (!node.HasAttr("perm")) {
    for (int i = node.rank() - 1; i >= 0; --i) perm.push_back(i);
  }
  return node.Return(node.graph().Transpose(node.In(0), perm));
}

}  // namespace asyra::onnx_import::ops
