// Values that follow from attributes and shapes alone.
#include <cmath>

#include "frontends/onnx/ops/ops.h"
#include "frontends/onnx/tensor_proto.h"

namespace asyra::onnx_import::ops {
namespace {

Value IntVector(const Ints& values) {
  return Value::Known(Tensor::FromInts(
      DType::kI64, {static_cast<int64_t>(values.size())}, values));
}

// Number of elements of a range; -1 if it is not a reasonable number.
template <typename T>
int64_t RangeLength(T start, T limit, T step) {
  double count = std::ceil((static_cast<double>(limit) - start) / step);
  return count < 1e12 ? std::max<int64_t>(static_cast<int64_t>(count), 0) : -1;
}

// Marks which elements of the last two dimensions are on or above (below) the
// k-th diagonal.
absl::StatusOr<Value> KeepMask(Node& node, bool upper, int64_t k) {
  const Type& type = node.type();
  int64_t rows = type.size(type.rank() - 2),
          columns = type.size(type.rank() - 1);
  Graph& graph = node.graph();
  ASYRA_ASSIGN_OR_RETURN(Value row, graph.Iota({rows, 1}, 0, DType::kI64));
  ASYRA_ASSIGN_OR_RETURN(Value column,
                         graph.Iota({1, columns}, 1, DType::kI64));
  ASYRA_ASSIGN_OR_RETURN(
      row,
      graph.Elementwise(
          "add", {row, Value::Known(Tensor::FromInts(DType::kI64, {}, {k}))}));
  return upper ? graph.Elementwise("less_equal", {row, column})
               : graph.Elementwise("less_equal", {column, row});
}

}  // namespace

absl::Status Constant(Node& node) {
  for (const char* name : {"value", "sparse_value"}) {
    if (!node.HasAttr(name)) continue;
    ASYRA_ASSIGN_OR_RETURN(Value value, node.TensorAttr(name));
    value.set_stored();
    return node.Return(value);
  }
  if (node.HasAttr("value_int")) {
    return node.Return(Value::Known(
        Tensor::FromInts(DType::kI64, {}, {node.Int("value_int", 0)})));
  }
  if (node.HasAttr("value_ints")) {
    return node.Return(IntVector(node.IntList("value_ints")));
  }
  if (node.HasAttr("value_float")) {
    return node.Return(
        node.graph().Scalar(node.Float("value_float", 0), DType::kF32));
  }
  if (node.HasAttr("value_floats")) {
    std::vector<double> values = node.FloatList("value_floats");
    return node.Return(Value::Known(Tensor::FromDoubles(
        DType::kF32, {static_cast<int64_t>(values.size())}, values)));
  }
  return Unimplemented("it has no tensor, int or float value");
}

absl::Status ConstantOfShape(Node& node) {
  ASYRA_ASSIGN_OR_RETURN(Ints shape, node.KnownInts(0, "shape"));
  Value element = node.graph().Scalar(0, DType::kF32);
  if (node.HasAttr("value")) {
    ASYRA_ASSIGN_OR_RETURN(element, node.TensorAttr("value"));
    if (element.type().num_elements() != 1) {
      return Invalid("attribute value has {} elements, it should have 1",
                     element.type().num_elements());
    }
  }
  const NarrowType* narrow = element.narrow();
  ASYRA_ASSIGN_OR_RETURN(element, node.graph().Reshape(element, {}));
  ASYRA_ASSIGN_OR_RETURN(element, node.graph().Broadcast(element, shape));
  element.set_narrow(narrow);
  return node.Return(element);
}

absl::Status Range(Node& node) {
  for (int i = 0; i < 3; ++i) {
    node.TakeNumber(i);
    if (!node.In(i).is_splat() || node.dtype(i) != node.dtype(0)) {
      return Unimplemented(
          "start, limit and delta must be known scalars of one type");
    }
  }
  DType dtype = node.dtype();
  const Tensor &start = node.In(0).data(), &limit = node.In(1).data(),
               &step = node.In(2).data();
  if (step.Get(0) == 0) return Invalid("delta is 0");
  int64_t count =
      IsFloat(dtype)
          ? RangeLength(start.Get(0), limit.Get(0), step.Get(0))
          : RangeLength(start.GetInt(0), limit.GetInt(0), step.GetInt(0));
  if (count < 0) {
    return Invalid("from {} to {} by {} is too long", start.Get(0),
                   limit.Get(0), step.Get(0));
  }
  Graph& graph = node.graph();
  ASYRA_ASSIGN_OR_RETURN(Value index, graph.Iota({count}, 0, dtype));
  // The ends may be tensors of one element; the range is a vector all the same.
  Value first = Value::Known(start.Reshaped({}));
  Value delta = Value::Known(step.Reshaped({}));
  if (!delta.IsSplatOf(1)) {
    ASYRA_ASSIGN_OR_RETURN(index, graph.Elementwise("mul", {index, delta}));
  }
  if (!first.IsSplatOf(0)) {
    ASYRA_ASSIGN_OR_RETURN(index, graph.Elementwise("add", {index, first}));
  }
  return node.Return(index);
}

absl::Status Shape(Node& node) {
  int64_t rank = node.rank();
  auto bound = [&](std::string_view name, int64_t otherwise) {
    int64_t at = node.Int(name, otherwise);
    return std::clamp(at < 0 ? std::max(at, -rank) + rank : at, int64_t{0},
                      rank);
  };
  int64_t start = bound("start", 0), end = bound("end", rank);
  asyra::Shape shape = node.In(0).shape();
  if (start >= end) return node.Return(IntVector({}));
  return node.Return(
      IntVector(Ints(shape.begin() + start, shape.begin() + end)));
}

absl::Status Size(Node& node) {
  return node.Return(Value::Known(
      Tensor::FromInts(DType::kI64, {}, {node.type().num_elements()})));
}

absl::Status Trilu(Node& node) {
  int64_t k = 0;
  if (node.Has(1)) {
    ASYRA_ASSIGN_OR_RETURN(Ints diagonal, node.KnownInts(1, "k"));
    if (diagonal.size() != 1)
      return Invalid("k has {} elements", diagonal.size());
    // Beyond the matrix, all diagonals are the same.
    constexpr int64_t kFar = int64_t{1} << 48;
    k = std::clamp(diagonal[0], -kFar, kFar);
  }
  if (node.rank() < 2) return Invalid("the input has rank {}", node.rank());
  bool upper = node.Int("upper", 1) != 0;
  ASYRA_ASSIGN_OR_RETURN(Value keep, KeepMask(node, upper, k));
  if (node.dtype() == DType::kBool) {
    return node.Return(node.graph().Elementwise("and", {keep, node.In(0)}));
  }
  return node.Return(node.graph().Elementwise(
      "select", {keep, node.In(0), node.graph().Scalar(0, node.dtype())}));
}

// Ones on the k-th diagonal.
absl::Status EyeLike(Node& node) {
  if (node.rank() != 2) return Invalid("the input has rank {}", node.rank());
  DType dtype = node.dtype();
  if (node.HasAttr("dtype")) {
    ASYRA_ASSIGN_OR_RETURN(dtype, DTypeFromOnnx(node.Int("dtype", 0)));
  }
  Graph& graph = node.graph();
  ASYRA_ASSIGN_OR_RETURN(Value row,
                         graph.Iota({node.type().size(0), 1}, 0, DType::kI64));
  ASYRA_ASSIGN_OR_RETURN(Value column,
                         graph.Iota({1, node.type().size(1)}, 1, DType::kI64));
  Value k = Value::Known(Tensor::FromInts(DType::kI64, {}, {node.Int("k", 0)}));
  ASYRA_ASSIGN_OR_RETURN(row, graph.Elementwise("add", {row, k}));
  ASYRA_ASSIGN_OR_RETURN(Value diagonal,
                         graph.Elementwise("equal", {row, column}));
  return node.Return(graph.Cast(diagonal, dtype));
}

// Coordinates of nonzero elements of a known value; their number is part of a
// shape.
absl::Status NonZero(Node& node) {
  const Value& value = node.In(0);
  if (!value.known() || value.type().num_elements() > (int64_t{1} << 20)) {
    return Unimplemented(
        "the number of elements that are not zero depends on the model's data");
  }
  Tensor data = value.Expanded();
  std::vector<Ints> coordinates(data.rank());
  for (int64_t i = 0; i < data.num_elements(); ++i) {
    if (data.Get(i) == 0) continue;
    int64_t rest = i;
    for (int d = data.rank(); d-- > 0; rest /= data.size(d)) {
      coordinates[d].push_back(rest % data.size(d));
    }
  }
  Ints all;
  for (const Ints& row : coordinates) {
    all.insert(all.end(), row.begin(), row.end());
  }
  int64_t count =
      data.rank() == 0 ? 0 : static_cast<int64_t>(coordinates[0].size());
  return node.Return(
      Value::Known(Tensor::FromInts(DType::kI64, {data.rank(), count}, all)));
}

}  // namespace asyra::onnx_import::ops
