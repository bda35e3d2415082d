// Elements and rows picked along one dimension, and their gradient.
#include "ir/ops/gradient.h"
#include "ir/ops/indexing.h"
#include "ir/ops/op_list.h"

namespace asyra::ops {
namespace {

// gather --------------------------------------------------------------------

absl::StatusOr<std::vector<Type>> InferGather(const OpCall& call) {
  const Type& x = call.operands[0];
  ASYRA_ASSIGN_OR_RETURN(int dim, RequireDim(call, "dim", x.rank()));
  ASYRA_RETURN_IF_ERROR(RequireInteger(call, 1));
  Type type(x.dtype, {});
  type.dims.assign(x.dims.begin(), x.dims.begin() + dim);
  for (const Dim& index : call.operands[1].dims) type.dims.push_back(index);
  type.dims.insert(type.dims.end(), x.dims.begin() + dim + 1, x.dims.end());
  return std::vector<Type>{type};
}

absl::StatusOr<AxisRule> GatherAxes(const OpCall& call) {
  int rank = call.operands[0].rank();
  int dim = NormalizeDim(call.attrs.Int("dim"), rank);
  std::string index;
  for (int i = 0; i < call.operands[1].rank(); ++i) {
    index += fmt::format(" i{}", i);
  }
  return ParseAxisRule(
      fmt::format("{},{} -> {}{} {}", DimSpec(0, rank, {dim}), index,
                  DimSpec(0, dim), index, DimSpec(dim + 1, rank)),
      call.operands, call.results, Linearity::kFirst);
}

absl::Status GatherReference(const RefCall& call) {
  const Tensor& x = call.operands[0];
  Tensor& out = call.results[0];
  Along along(x.shape(), NormalizeDim(call.attrs.Int("dim"), x.rank()));
  int64_t row = along.inner * SizeOf(x.dtype());
  std::vector<int64_t> indices = call.operands[1].ToInts();
  for (int64_t& index : indices) {
    ASYRA_ASSIGN_OR_RETURN(index, Position(index, along.size));
  }
  std::byte* to = out.mutable_data();
  if (out.bytes() == 0) return absl::OkStatus();
  for (int64_t i = 0; i < along.outer; ++i) {
    for (int64_t index : indices) {
      std::memcpy(to, x.data() + (i * along.size + index) * row, row);
      to += row;
    }
  }
  return absl::OkStatus();
}

// There is a gradient of floats only, so x is one.
Gradients GatherVjp(Gradient& g) {
  int dim = NormalizeDim(g.attrs().Int("dim"), g.type(g.x()).rank());
  return {g.Op("segment_sum", {g.dy(), g.x(1)},
               {{"dim", int64_t{dim}}, {"size", g.type(g.x()).size(dim)}}),
          kNoValue};
}

// segment_sum ---------------------------------------------------------------

absl::StatusOr<std::vector<Type>> InferSegmentSum(const OpCall& call) {
  const Type& x = call.operands[0];
  const Type& indices = call.operands[1];
  ASYRA_RETURN_IF_ERROR(RequireInteger(call, 1));
  int64_t dim = call.attrs.Int("dim"), size = call.attrs.Int("size");
  if (dim < 0 || dim + indices.rank() > x.rank()) {
    return Invalid("dim is {}, the ranks are {} and {}", dim, x.rank(),
                   indices.rank());
  }
  if (size < 0) return Invalid("size is {}", size);
  int64_t ids = call.attrs.Int("rows");
  if (ids < -1 || ids > size) {
    return Invalid("rows is {}, size is {}", ids, size);
  }
  Type type(x.dtype, {});
  type.dims.assign(x.dims.begin(), x.dims.begin() + dim);
  type.dims.push_back({size, {}});
  for (int d = 0; d < indices.rank(); ++d) {
    int at = static_cast<int>(dim) + d;
    if (x.size(at) != indices.size(d)) {
      return Invalid("dim {} of x is {}, dim {} of indices {}", at, x.size(at),
                     d, indices.size(d));
    }
  }
  type.dims.insert(type.dims.end(), x.dims.begin() + dim + indices.rank(),
                   x.dims.end());
  return std::vector<Type>{type};
}

absl::StatusOr<AxisRule> SegmentSumAxes(const OpCall& call) {
  int dim = static_cast<int>(call.attrs.Int("dim"));
  int end = dim + call.operands[1].rank(), rank = call.operands[0].rank();
  return ParseAxisRule(
      fmt::format("{}, {} -> {} @segment {}", DimSpec(0, rank),
                  DimSpec(dim, end), DimSpec(0, dim), DimSpec(end, rank)),
      call.operands, call.results, Linearity::kFirst);
}

// `axes` cut what no operand tells the distribution of.
absl::StatusOr<std::vector<Type>> DistributeSegmentSum(const OpCall& call,
                                                       const Mesh& mesh) {
  ASYRA_ASSIGN_OR_RETURN(AxisRule rule, AxisRuleOf(call));
  ASYRA_ASSIGN_OR_RETURN(std::vector<Type> results,
                         Distribute(rule, call.operands, call.results, mesh));
  const auto& axes = call.attrs.Get<AxisList>("axes");
  if (!axes.empty()) {
    ASYRA_RETURN_IF_ERROR(PutInner(
        &results[0], static_cast<int>(call.attrs.Int("dim")), axes, mesh));
  }
  return results;
}

// Segments on other devices are skipped here.
absl::Status SegmentSumReference(const RefCall& call) {
  const Tensor& x = call.operands[0];
  Tensor& out = call.results[0];
  int dim = static_cast<int>(call.attrs.Int("dim"));
  int64_t total = IdsOf(call.attrs.Int("rows"), call.attrs.Int("size"));
  int64_t local = out.size(dim);
  const Dim& segments = call.result_types[0].dims[dim];
  int64_t start = ShardStart(segments, call.mesh, call.device);
  std::vector<int64_t> rows = call.operands[1].ToInts();
  for (int64_t& row : rows) {
    ASYRA_ASSIGN_OR_RETURN(row, Position(row, total));
    row -= start;
  }
  auto count = static_cast<int64_t>(rows.size());
  int64_t inner = Along(out.shape(), dim).inner;
  Scatter sum(Reduction::kAdd, out, x);
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    int64_t row = rows[i / inner % count], outer = i / inner / count;
    if (row < 0 || row >= local) continue;
    sum.Put((outer * local + row) * inner + i % inner, i);
  }
  sum.Finish(&out);
  return absl::OkStatus();
}

// Zeros, then a read and a write of a sum for each row; sums of 16 bits are f32
// until they are complete.
Work SegmentSumWork(const OpCall& local) {
  const Type &x = local.operands[0], &y = local.results[0];
  bool wide = SizeOf(y.dtype) == 2;
  double sum_bytes = static_cast<double>(wide ? 4 : SizeOf(y.dtype));
  double sums = static_cast<double>(y.num_elements()) * sum_bytes;
  double added = static_cast<double>(x.num_elements()) * sum_bytes;
  Work work = {.flops = static_cast<double>(x.num_elements())};
  work.read_bytes =
      static_cast<double>(x.bytes() + local.operands[1].bytes()) + added;
  work.write_bytes = sums + added;
  if (wide) {
    work.scratch_bytes = sums;
    work.read_bytes += sums;
    work.write_bytes += static_cast<double>(y.bytes());
  }
  return work;
}

Gradients SegmentSumVjp(Gradient& g) {
  int64_t rows = g.attrs().Int("rows");
  // The gradient of a lookup, which is of a matrix.
  if (rows >= 0 && g.attrs().Int("dim") == 0 && g.type(g.dy()).rank() == 2) {
    return {g.Op("embedding", {g.dy(), g.x(1)}, {{"rows", rows}}), kNoValue};
  }
  return {g.Op("gather", {g.dy(), g.x(1)}, {{"dim", g.attrs().Int("dim")}}),
          kNoValue};
}

// gather_elements -----------------------------------------------------------

absl::StatusOr<std::vector<Type>> InferGatherElements(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(RequireElementIndices(call).status());
  return std::vector<Type>{
      Type(call.operands[0].dtype, call.operands[1].shape())};
}

// An index into another device's part gives zero here: the sum over devices
// has each element once. Of bools there are no sums.
absl::StatusOr<AxisRule> GatherElementsAxes(const OpCall& call) {
  bool sums = call.operands[0].dtype != DType::kBool;
  ElementSpecs specs = SpecsOfElements(call, sums ? "@v" : "!v", "i");
  return ParseAxisRule(
      fmt::format("{}, {} -> {}", specs.x, specs.indices, specs.indices),
      call.operands, call.results, Linearity::kFirst);
}

absl::Status GatherElementsReference(const RefCall& call) {
  const Tensor& x = call.operands[0];
  Tensor& out = call.results[0];
  ASYRA_ASSIGN_OR_RETURN(std::vector<int64_t> elements, FindElements(call));
  // A zero after the elements of x replaces elements on other devices.
  Tensor all = Tensor::Concat(
      {x.Reshaped({x.num_elements()}), Tensor(x.dtype(), {1})}, 0);
  CopyElements(
      all,
      [&](int64_t i) {
        return elements[i] < 0 ? x.num_elements() : elements[i];
      },
      &out);
  return absl::OkStatus();
}

Gradients GatherElementsVjp(Gradient& g) {
  AttrMap attrs = {{"dim", g.attrs().Int("dim")},
                   {"reduction", std::string("add")}};
  return {g.Op("scatter_elements", {g.Zeros(g.x()), g.x(1), g.dy()}, attrs),
          kNoValue};
}

}  // namespace

std::vector<OpDef> GatherOps() {
  const AttrDef dim = {"dim", AttrKind::kInt, "dimension"};
  return {
      {.name = "gather",
       .summary = "rows of x along `dim` by index, negative ones counted from "
                  "the end; indices' dimensions take the place of `dim`",
       .operands = {{"x"}, {"indices"}},
       .attrs = {dim},
       .infer = InferGather,
       .axes = GatherAxes,
       .work = MoveWork,
       .vjp = Vjp<GatherVjp>,
       .reference = GatherReference,
       .samples = {{"gather(f32[6,4], i64[2,4]) {dim=0}"},
                   {"gather(f32[2,6,4], i32[4]) {dim=1}", -6, 5},
                   {"gather(i64[6], i64[]) {dim=0}", 0, 5}}},
      {.name = "segment_sum",
       .summary = "element v of `dim` is the sum of the rows of x whose index "
                  "is v; indices' dimensions are those of x from `dim` on",
       .operands = {{"x"}, {"indices"}},
       .attrs = {dim,
                 {"size", AttrKind::kInt, "of `dim` in the result"},
                 RowsAttr(),
                 {"axes", AttrKind::kAxes, "that cut `dim` of the result",
                  AxisList()}},
       .infer = InferSegmentSum,
       .axes = SegmentSumAxes,
       .distribute = DistributeSegmentSum,
       .work = SegmentSumWork,
       .vjp = Vjp<SegmentSumVjp>,
       .reference = SegmentSumReference,
       .samples = {{"segment_sum(f32[2,4,6], i64[2,4]) {dim=0, size=4}", -4, 3},
                   {"segment_sum(f32[6,4], i64[6]) {dim=0, size=8, rows=6}", -6,
                    5},
                   {"segment_sum(f32[2,6,4], i32[6]) {dim=1, size=6}"},
                   {"segment_sum(i64[4,2], i64[]) {dim=1, size=4}"},
                   {"segment_sum(f32[6@b,4], i64[6@b]) {dim=0, size=8, axes=a}",
                    -8, 7, "(a=2, b=2)"}}},
      {.name = "gather_elements",
       .summary = "the element of x at every element's own place but for "
                  "`dim`, where it is the index, counted from the end when "
                  "negative",
       .operands = {{"x"}, {"indices"}},
       .attrs = {dim},
       .infer = InferGatherElements,
       .axes = GatherElementsAxes,
       .work = MoveWork,
       .vjp = Vjp<GatherElementsVjp>,
       .reference = GatherElementsReference,
       .samples = {{"gather_elements(f32[4,6], i64[4,2]) {dim=1}"},
                   {"gather_elements(f32[4,2,6], i32[8,2,4]) {dim=0}"},
                   {"gather_elements(i64[4,6], i64[4,6]) {dim=-1}", -6, 5}},
       .counts_from_end = true},
  };
}

}  // namespace asyra::ops
