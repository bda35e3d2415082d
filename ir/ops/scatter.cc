// Elements put at an index along one dimension.
#include "ir/ops/indexing.h"
#include "ir/ops/op_list.h"

namespace asyra::ops {
namespace {

absl::StatusOr<std::vector<Type>> InferScatter(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(RequireReduction(call).status());
  ASYRA_RETURN_IF_ERROR(RequireElementIndices(call).status());
  Type want(call.operands[0].dtype, call.operands[1].shape());
  if (call.operands[2] != want) {
    return Invalid("updates are {}, they should be {}",
                   ToString(call.operands[2], {}), ToString(want, {}));
  }
  return SameAsFirst(call);
}

// If `dim` of x is sharded, each device applies the updates in its own part.
absl::StatusOr<AxisRule> ScatterAxes(const OpCall& call) {
  ElementSpecs specs = SpecsOfElements(call, "@v", "!i");
  return ParseAxisRule(fmt::format("{}, {}, {} -> {}", specs.x, specs.indices,
                                   specs.indices, specs.x),
                       call.operands, call.results);
}

absl::Status ScatterReference(const RefCall& call) {
  ASYRA_ASSIGN_OR_RETURN(std::vector<int64_t> elements, FindElements(call));
  Scatter scatter(ReductionOf(call.attrs), call.operands[0], call.operands[2]);
  for (size_t i = 0; i < elements.size(); ++i) {
    if (elements[i] < 0) continue;
    scatter.Put(elements[i], static_cast<int64_t>(i));
  }
  scatter.Finish(&call.results[0]);
  return absl::OkStatus();
}

Gradients ScatterElementsVjp(Gradient& g) {
  return ScatterGradients(g, "scatter_elements", "gather_elements");
}

// one_hot -------------------------------------------------------------------

absl::StatusOr<std::vector<Type>> InferOneHot(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(RequireInteger(call, 0));
  Type type = call.operands[0];
  ASYRA_ASSIGN_OR_RETURN(int dim, RequireDim(call, "dim", type.rank() + 1));
  int64_t depth = call.attrs.Int("depth");
  if (depth < 0) return Invalid("depth is {}", depth);
  type.dtype = call.attrs.Get<DType>("dtype");
  type.dims.insert(type.dims.begin() + dim, Dim{depth, {}});
  return std::vector<Type>{type};
}

absl::StatusOr<AxisRule> OneHotAxes(const OpCall& call) {
  int rank = call.operands[0].rank();
  int dim = NormalizeDim(call.attrs.Int("dim"), rank + 1);
  return ParseAxisRule(fmt::format("{} -> {} @depth {}", DimSpec(0, rank),
                                   DimSpec(0, dim), DimSpec(dim, rank)),
                       call.operands, call.results);
}

absl::Status OneHotReference(const RefCall& call) {
  Tensor& out = call.results[0];
  int dim = NormalizeDim(call.attrs.Int("dim"), out.rank());
  int64_t depth = call.attrs.Int("depth");
  int64_t start =
      ShardStart(call.result_types[0].dims[dim], call.mesh, call.device);
  Along along(out.shape(), dim);
  std::vector<int64_t> indices = call.operands[0].ToInts();
  for (size_t i = 0; i < indices.size(); ++i) {
    int64_t hot = indices[i] < 0 ? indices[i] + depth : indices[i];
    if (hot < start || hot >= start + along.size)
      continue;  // no one, or not us
    auto at = static_cast<int64_t>(i);
    out.SetInt((at / along.inner * along.size + hot - start) * along.inner +
                   at % along.inner,
               1);
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<OpDef> ScatterOps() {
  const AttrDef dim = {"dim", AttrKind::kInt, "dimension"};
  return {
      {.name = "scatter_elements",
       .summary = "x with each update put, or combined with what is there, at "
                  "its own place but for `dim`, where it is its index, as "
                  "ScatterElements of ONNX",
       .operands = {{"x"}, {"indices"}, {"updates"}},
       .attrs = {dim, ReductionAttr()},
       .infer = InferScatter,
       .axes = ScatterAxes,
       .work = MoveWork,
       .vjp = Vjp<ScatterElementsVjp>,
       .reference = ScatterReference,
       .samples = {{"scatter_elements(f32[4,6], i64[4,2], f32[4,2]) {dim=1}"},
                   {"scatter_elements(f32[4,6], i64[8,6], f32[8,6]) {dim=0, "
                    "reduction=\"add\"}"},
                   {"scatter_elements(f32[4,6], i64[4,6], f32[4,6]) {dim=0, "
                    "reduction=\"mul\"}",
                    1, 3},
                   {"scatter_elements(f32[2,4,6], i32[2,6,4], f32[2,6,4]) "
                    "{dim=1, reduction=\"max\"}"},
                   {"scatter_elements(i64[4,6], i64[4,6], i64[4,6]) {dim=-1, "
                    "reduction=\"min\"}",
                    -6, 5}}},
      {.name = "one_hot",
       .summary = "a new dimension `dim` with 1 at the index, counted from the "
                  "end when negative, and 0 elsewhere; all 0 where the index "
                  "is out of range",
       .operands = {{"indices"}},
       .attrs = {{"depth", AttrKind::kInt, "size of the new dimension"},
                 {"dim", AttrKind::kInt, "where it is in the result",
                  int64_t{-1}},
                 {"dtype", AttrKind::kDType, "element type", DType::kF32}},
       .infer = InferOneHot,
       .axes = OneHotAxes,
       .reference = OneHotReference,
       .samples = {{"one_hot(i64[2,4]) {depth=4}"},
                   {"one_hot(i32[4,6]) {depth=2, dim=0, dtype=bool}"}}},
  };
}

}  // namespace asyra::ops
