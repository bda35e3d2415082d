// Gather and scatter of slices at coordinates.
#include "ir/ops/gradient.h"
#include "ir/ops/indexing.h"
#include "ir/ops/op_list.h"

namespace asyra::ops {
namespace {

// gather_nd -----------------------------------------------------------------

// The ends of the dimensions of x and indices: x is [batch, indexed, rest],
// indices [batch, rows, depth], the result [batch, rows, rest].
struct GatherNdDims {
  int batch, depth, rank, index_rank;
  explicit GatherNdDims(const OpCall& call)
      : batch(static_cast<int>(call.attrs.Int("batch_dims"))),
        depth(static_cast<int>(
            call.operands[1].size(call.operands[1].rank() - 1))),
        rank(call.operands[0].rank()),
        index_rank(call.operands[1].rank()) {}
};

// The slices of operand 0 at the coordinates of operand 1.
absl::StatusOr<Type> InferSlices(const OpCall& call) {
  const Type& x = call.operands[0];
  const Type& indices = call.operands[1];
  ASYRA_RETURN_IF_ERROR(RequireInteger(call, 1));
  ASYRA_RETURN_IF_ERROR(RequireRank(call, 1, 1));
  int64_t batch = call.attrs.Int("batch_dims");
  int64_t depth = indices.size(indices.rank() - 1);
  if (batch < 0 || batch >= indices.rank() || batch > x.rank()) {
    return Invalid("batch_dims is {}, the ranks are {} and {}", batch, x.rank(),
                   indices.rank());
  }
  if (depth < 1 || depth > x.rank() - batch) {
    return Invalid("the last dim of indices is {}, x has {} dims to index",
                   depth, x.rank() - batch);
  }
  Type type(x.dtype, {});
  for (int d = 0; d < batch; ++d) {
    if (x.size(d) != indices.size(d)) {
      return Invalid("batch dim {} is {} in x and {} in indices", d, x.size(d),
                     indices.size(d));
    }
  }
  type.dims.assign(indices.dims.begin(), indices.dims.end() - 1);
  type.dims.insert(type.dims.end(), x.dims.begin() + batch + depth,
                   x.dims.end());
  return type;
}

absl::StatusOr<std::vector<Type>> InferGatherNd(const OpCall& call) {
  ASYRA_ASSIGN_OR_RETURN(Type type, InferSlices(call));
  return std::vector<Type>{type};
}

absl::StatusOr<AxisRule> GatherNdAxes(const OpCall& call) {
  GatherNdDims dims(call);
  std::vector<int> indexed;
  for (int d = 0; d < dims.depth; ++d) indexed.push_back(dims.batch + d);
  std::string rows = DimSpec(0, dims.batch);
  for (int d = dims.batch; d + 1 < dims.index_rank; ++d) {
    rows += fmt::format(" i{}", d);
  }
  return ParseAxisRule(
      fmt::format("{}, {} !depth -> {} {}", DimSpec(0, dims.rank, indexed),
                  rows, rows, DimSpec(dims.batch + dims.depth, dims.rank)),
      call.operands, call.results, Linearity::kFirst);
}

absl::Status GatherNdReference(const RefCall& call) {
  const Tensor& x = call.operands[0];
  Tensor& out = call.results[0];
  GatherNdDims dims(
      {call.def, call.attrs, call.operand_types, call.result_types});
  Shape strides = RowMajorStrides(x.shape());
  int first_rest = dims.batch + dims.depth;
  int64_t batches = 1, row = SizeOf(x.dtype());
  for (int d = 0; d < dims.batch; ++d) batches *= x.size(d);
  for (int d = first_rest; d < dims.rank; ++d) row *= x.size(d);
  std::vector<int64_t> indices = call.operands[1].ToInts();
  if (out.bytes() == 0) return absl::OkStatus();
  int64_t count = static_cast<int64_t>(indices.size()) / dims.depth;
  int64_t batch_size = x.num_elements() / batches;
  for (int64_t i = 0; i < count; ++i) {
    int64_t from = i / (count / batches) * batch_size;
    for (int k = 0; k < dims.depth; ++k) {
      int d = dims.batch + k;
      ASYRA_ASSIGN_OR_RETURN(int64_t index,
                             Position(indices[i * dims.depth + k], x.size(d)));
      from += index * strides[d];
    }
    std::memcpy(out.mutable_data() + i * row,
                x.data() + from * SizeOf(x.dtype()), row);
  }
  return absl::OkStatus();
}

Gradients GatherNdVjp(Gradient& g) {
  AttrMap attrs = g.attrs();
  attrs.Set("reduction", std::string("add"));
  return {g.Op("scatter_nd", {g.Zeros(g.x()), g.x(1), g.dy()}, attrs),
          kNoValue};
}

// scatter_nd ----------------------------------------------------------------

absl::StatusOr<std::vector<Type>> InferScatterNd(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(RequireReduction(call).status());
  ASYRA_ASSIGN_OR_RETURN(Type slices, InferSlices(call));
  if (call.operands[2] != slices) {
    return Invalid("updates are {}, they should be {}",
                   ToString(call.operands[2], {}), ToString(slices, {}));
  }
  return SameAsFirst(call);
}

// If the indexed dimensions of x are sharded, each device applies the updates
// in its own part.
absl::StatusOr<AxisRule> ScatterNdAxes(const OpCall& call) {
  GatherNdDims dims(call);
  std::string x = DimSpec(0, dims.batch), rows = x;
  for (int d = 0; d < dims.depth; ++d) {
    x += fmt::format(" @v{}", d);
  }
  for (int d = dims.batch; d + 1 < dims.index_rank; ++d) {
    rows += fmt::format(" !i{}", d);
  }
  std::string rest = DimSpec(dims.batch + dims.depth, dims.rank);
  x += " " + rest;
  return ParseAxisRule(
      fmt::format("{}, {} !depth, {} {} -> {}", x, rows, rows, rest, x),
      call.operands, call.results);
}

absl::Status ScatterNdReference(const RefCall& call) {
  const Tensor& x = call.operands[0];
  GatherNdDims dims(
      {call.def, call.attrs, call.operand_types, call.result_types});
  Shape strides = RowMajorStrides(x.shape());
  int64_t batches = 1, row = 1;
  for (int d = 0; d < dims.batch; ++d) batches *= x.size(d);
  for (int d = dims.batch + dims.depth; d < dims.rank; ++d) row *= x.size(d);
  std::vector<int64_t> indices = call.operands[1].ToInts();
  int64_t count = static_cast<int64_t>(indices.size()) / dims.depth;
  Scatter scatter(ReductionOf(call.attrs), x, call.operands[2]);
  for (int64_t i = 0; i < count; ++i) {
    int64_t to = i / (count / batches) * (x.num_elements() / batches);
    bool here = true;
    for (int k = 0; k < dims.depth; ++k) {
      int d = dims.batch + k;
      ASYRA_ASSIGN_OR_RETURN(
          int64_t index,
          Position(indices[i * dims.depth + k], call.operand_types[0].size(d)));
      index -= call.Start(0, d);
      here &= index >= 0 && index < x.size(d);
      to += index * strides[d];
    }
    for (int64_t k = 0; here && k < row; ++k) scatter.Put(to + k, i * row + k);
  }
  scatter.Finish(&call.results[0]);
  return absl::OkStatus();
}

Gradients ScatterNdVjp(Gradient& g) {
  return ScatterGradients(g, "scatter_nd", "gather_nd");
}

}  // namespace

std::vector<OpDef> GatherNdOps() {
  const AttrDef batch = {"batch_dims", AttrKind::kInt,
                         "leading dimensions in common", int64_t{0}};
  return {
      {.name = "gather_nd",
       .summary = "the slices of x that the rows of indices point to, as "
                  "GatherND of ONNX",
       .operands = {{"x"}, {"indices"}},
       .attrs = {batch},
       .infer = InferGatherNd,
       .axes = GatherNdAxes,
       .work = MoveWork,
       .vjp = Vjp<GatherNdVjp>,
       .reference = GatherNdReference,
       .samples = {{"gather_nd(f32[4,4,6], i64[2,2])"},
                   {"gather_nd(f32[2,4,6], i64[2,4,1]) {batch_dims=1}"},
                   {"gather_nd(f32[4,4], i64[6,2])"}}},
      {.name = "scatter_nd",
       .summary = "x with the slices that the rows of indices point to "
                  "replaced by updates, or combined with them, as ScatterND of "
                  "ONNX",
       .operands = {{"x"}, {"indices"}, {"updates"}},
       .attrs = {batch, ReductionAttr()},
       .infer = InferScatterNd,
       .axes = ScatterNdAxes,
       .work = MoveWork,
       .vjp = Vjp<ScatterNdVjp>,
       .reference = ScatterNdReference,
       .samples =
           {{"scatter_nd(f32[4,4,6], i64[2,2], f32[2,6]) {reduction=\"add\"}"},
            {"scatter_nd(f32[4,4,6], i64[6,1], f32[6,4,6])"},
            {"scatter_nd(f32[2,4,6], i64[2,8,1], f32[2,8,6]) {batch_dims=1, "
             "reduction=\"max\"}"},
            {"scatter_nd(i64[4,4], i64[8,2], i64[8]) {reduction=\"min\"}"}}},
  };
}

}  // namespace asyra::ops
