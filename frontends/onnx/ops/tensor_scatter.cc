// Caches of keys and values that are written outside of the attention.
#include "frontends/onnx/ops/attention_form.h"
#include "frontends/onnx/ops/ops.h"

namespace asyra::onnx_import::ops {
namespace {

Value Integer(int64_t value) {
  return Value::Known(Tensor::FromInts(DType::kI64, {}, {value}));
}

// Moves dimension `dim` to the place of dimension 1, or back.
absl::StatusOr<Value> MoveDim(Node& node, const Value& value, int dim,
                              bool back) {
  Ints perm;
  for (int i = 0; i < value.rank(); ++i) {
    if (i != dim) perm.push_back(i);
  }
  perm.insert(perm.begin() + 1, dim);
  Ints inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) {
    inverse[perm[i]] = static_cast<int64_t>(i);
  }
  return node.graph().Transpose(value, back ? inverse : perm);
}

// Returns how far behind the first written row each row of the cache is, [B,
// T]; negative in front of it, unless the cache is a ring.
absl::StatusOr<Value> Distance(Node& node, int64_t batch, int64_t rows,
                               bool circular) {
  Graph& graph = node.graph();
  ASYRA_ASSIGN_OR_RETURN(Value row, graph.Iota({batch, rows}, 1, DType::kI64));
  if (!node.Has(2)) return row;
  if (!IsInteger(node.dtype(2)) || node.type(2).num_elements() != batch) {
    return Invalid("write_indices are {}{}, they should be i64[{}]",
                   ToString(node.dtype(2)), ShapeToString(node.In(2).shape()),
                   batch);
  }
  ASYRA_ASSIGN_OR_RETURN(Value first, graph.Cast(node.In(2), DType::kI64));
  ASYRA_ASSIGN_OR_RETURN(first, graph.Reshape(first, {batch, 1}));
  ASYRA_ASSIGN_OR_RETURN(Value distance,
                         graph.Elementwise("sub", {row, first}));
  if (!circular) return distance;
  ASYRA_ASSIGN_OR_RETURN(Value around,
                         graph.Elementwise("add", {distance, Integer(rows)}));
  ASYRA_ASSIGN_OR_RETURN(Value before,
                         graph.Elementwise("less", {distance, Integer(0)}));
  return graph.Elementwise("select", {before, around, distance});
}

}  // namespace

absl::Status TensorScatter(Node& node) {
  Graph& graph = node.graph();
  ASYRA_ASSIGN_OR_RETURN(int dim, DimOf(node.Int("axis", -2), node.rank()));
  std::string mode = node.String("mode", "linear");
  if (mode != "linear" && mode != "circular") {
    return Invalid("mode is '{}', not linear or circular", mode);
  }
  if (dim == 0 || node.rank(1) != node.rank()) {
    return Invalid("axis is {}, the cache has rank {}, the update {}", dim,
                   node.rank(), node.rank(1));
  }
  ASYRA_ASSIGN_OR_RETURN(Value cache, MoveDim(node, node.In(0), dim, false));
  ASYRA_ASSIGN_OR_RETURN(Value update, MoveDim(node, node.In(1), dim, false));
  int64_t batch = cache.type().size(0), rows = cache.type().size(1);
  int64_t written = update.type().size(1);
  asyra::Shape expected = cache.shape();
  expected[1] = written;
  if (written > rows || written == 0 || update.shape() != expected) {
    return Invalid("the update has shape {}, the cache {}",
                   ShapeToString(node.In(1).shape()),
                   ShapeToString(node.In(0).shape()));
  }
  ASYRA_ASSIGN_OR_RETURN(Value distance,
                         Distance(node, batch, rows, mode == "circular"));
  ASYRA_ASSIGN_OR_RETURN(update, RowsAt(node, update, distance));
  ASYRA_ASSIGN_OR_RETURN(
      Value behind, graph.Elementwise("less_equal", {Integer(0), distance}));
  ASYRA_ASSIGN_OR_RETURN(
      Value within, graph.Elementwise("less", {distance, Integer(written)}));
  ASYRA_ASSIGN_OR_RETURN(within, graph.Elementwise("and", {behind, within}));
  asyra::Shape of_rows(cache.rank(), 1);
  of_rows[0] = batch;
  of_rows[1] = rows;
  ASYRA_ASSIGN_OR_RETURN(within, graph.Reshape(within, of_rows));
  ASYRA_ASSIGN_OR_RETURN(cache,
                         graph.Elementwise("select", {within, update, cache}));
  return node.Return(MoveDim(node, cache, dim, true));
}

}  // namespace asyra::onnx_import::ops
