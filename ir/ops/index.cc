// Parts of values, and values joined.
#include "ir/ops/gradient.h"
#include "ir/ops/infer.h"
#include "ir/ops/op_list.h"

namespace asyra::ops {
namespace {

// slice ---------------------------------------------------------------------

struct SliceAttrs {
  int dim;
  int64_t start, stop, step;
  SliceAttrs(const AttrMap& attrs, int rank)
      : dim(NormalizeDim(attrs.Int("dim"), rank)),
        start(attrs.Int("start")),
        stop(attrs.Int("stop")),
        step(attrs.Int("step")) {}
  bool TakesAll(int64_t size) const {
    return start == 0 && stop == size && step == 1;
  }
};

absl::StatusOr<std::vector<Type>> InferSlice(const OpCall& call) {
  Type type = call.operands[0];
  ASYRA_RETURN_IF_ERROR(RequireDim(call, "dim", type.rank()).status());
  SliceAttrs slice(call.attrs, type.rank());
  int64_t size = type.size(slice.dim);
  if (slice.step == 0) return Invalid("step is 0");
  bool ascends = slice.step > 0;
  bool inside =
      ascends
          ? 0 <= slice.start && slice.start <= slice.stop && slice.stop <= size
          : -1 <= slice.stop && slice.stop <= slice.start && slice.start < size;
  if (!inside) {
    return Invalid("[{}, {}) by {} is not inside dim {} of size {}",
                   slice.start, slice.stop, slice.step, slice.dim, size);
  }
  // With a distance of 2^63 or a step of -2^63 there is only the first element.
  uint64_t distance = static_cast<uint64_t>(ascends ? slice.stop - slice.start
                                                    : slice.start - slice.stop);
  uint64_t step = ascends ? static_cast<uint64_t>(slice.step)
                          : uint64_t{0} - static_cast<uint64_t>(slice.step);
  type.dims[slice.dim].size =
      static_cast<int64_t>(distance / step + (distance % step != 0));
  return std::vector<Type>{type};
}

absl::StatusOr<AxisRule> SliceAxes(const OpCall& call) {
  int rank = call.operands[0].rank();
  SliceAttrs slice(call.attrs, rank);
  std::string from = DimSpec(0, rank), to = from;
  if (!slice.TakesAll(call.operands[0].size(slice.dim))) {
    from = DimSpec(0, rank, {slice.dim});
    to = fmt::format("{} !part {}", DimSpec(0, slice.dim),
                     DimSpec(slice.dim + 1, rank));
  }
  return ParseAxisRule(from + " -> " + to, call.operands, call.results,
                       Linearity::kJoint);
}

// A dimension that is cut is whole in every part, so only the end of one
// that is taken as it is can differ.
void SliceResize(AttrMap* attrs, absl::Span<const Type> results) {
  SliceAttrs slice(*attrs, results[0].rank());
  if (slice.step != 1) return;
  attrs->Set("stop", slice.start + results[0].size(slice.dim));
}

absl::Status SliceReference(const RefCall& call) {
  const Tensor& in = call.operands[0];
  Tensor& out = call.results[0];
  SliceAttrs slice(call.attrs, in.rank());
  if (slice.step == 1) {
    out = in.Slice(slice.dim, slice.start, out.size(slice.dim));
    return absl::OkStatus();
  }
  Shape strides = RowMajorStrides(in.shape());
  int64_t offset = slice.start * strides[slice.dim];
  // One element is reached by any step, however large.
  strides[slice.dim] *= out.size(slice.dim) > 1 ? slice.step : 0;
  CopyElements(in, StridedIndex(out.shape(), strides, offset), &out);
  return absl::OkStatus();
}

// Elements go back to where they were taken.
Gradients SliceVjp(Gradient& g) {
  const Type& x = g.type(g.x());
  SliceAttrs slice(g.attrs(), x.rank());
  int64_t count = g.type(g.dy()).size(slice.dim), size = x.size(slice.dim);
  if (slice.step == 1) {
    Ints before(x.rank(), 0), after(x.rank(), 0);
    before[slice.dim] = slice.start;
    after[slice.dim] = size - slice.stop;
    return {g.Op("pad", {g.dy()}, {{"before", before}, {"after", after}})};
  }
  auto scalar = [&](int64_t value) {
    return g.Op("constant", {},
                {{"value", Tensor::FromInts(DType::kI64, {}, {value})}});
  };
  ValueId index = g.Op(
      "iota", {},
      {{"shape", Ints{count}}, {"dim", int64_t{0}}, {"dtype", DType::kI64}});
  index = g.Add(g.Mul(index, scalar(slice.step)), scalar(slice.start));
  return {g.Op("segment_sum", {g.dy(), index},
               {{"dim", int64_t{slice.dim}}, {"size", size}})};
}

// concat --------------------------------------------------------------------

absl::StatusOr<std::vector<Type>> InferConcat(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(RequireSameDType(call));
  Type type = call.operands[0];
  ASYRA_ASSIGN_OR_RETURN(int dim, RequireDim(call, "dim", type.rank()));
  for (size_t i = 1; i < call.operands.size(); ++i) {
    Type part = call.operands[i];
    Type like = type;
    if (part.rank() == like.rank()) like.dims[dim] = part.dims[dim];
    if (part != like) {
      return Invalid("operand {} has shape {}, operand 0 has {}, dim is {}", i,
                     ShapeToString(part.shape()),
                     ShapeToString(call.operands[0].shape()), dim);
    }
    if (__builtin_add_overflow(type.dims[dim].size, part.size(dim),
                               &type.dims[dim].size)) {
      return Invalid("dim {} exceeds 2^63", dim);
    }
  }
  return std::vector<Type>{type};
}

absl::StatusOr<AxisRule> ConcatAxes(const OpCall& call) {
  int rank = call.results[0].rank();
  int dim = NormalizeDim(call.attrs.Int("dim"), rank);
  std::string before = DimSpec(0, dim), after = DimSpec(dim + 1, rank), spec;
  for (size_t i = 0; i < call.operands.size(); ++i) {
    spec += fmt::format("{}{} !part{} {}", i > 0 ? ", " : "", before, i, after);
  }
  return ParseAxisRule(fmt::format("{} -> {} !all {}", spec, before, after),
                       call.operands, call.results, Linearity::kJoint);
}

absl::Status ConcatReference(const RefCall& call) {
  int dim = NormalizeDim(call.attrs.Int("dim"), call.operands[0].rank());
  call.results[0] = Tensor::Concat(call.operands, dim);
  return absl::OkStatus();
}

Gradients ConcatVjp(Gradient& g) {
  int64_t dim = NormalizeDim(g.attrs().Int("dim"), g.type(g.y()).rank());
  int64_t start = 0;
  Gradients parts;
  for (int i = 0; i < g.num_operands(); ++i) {
    int64_t stop = start + g.type(g.x(i)).size(static_cast<int>(dim));
    parts.push_back(g.Op("slice", {g.dy()},
                         {{"dim", dim}, {"start", start}, {"stop", stop}}));
    start = stop;
  }
  return parts;
}

// Reads what it writes, all operands together.
Work ConcatWork(const OpCall& local) {
  double bytes = static_cast<double>(local.results[0].bytes());
  return {.flops = 0, .read_bytes = bytes, .write_bytes = bytes};
}

}  // namespace

std::vector<OpDef> IndexOps() {
  const AttrDef dim = {"dim", AttrKind::kInt, "dimension"};
  return {
      {.name = "slice",
       .summary = "elements start, start + step, ... of `dim`, as long as they "
                  "lie before stop (after it when step < 0; stop = -1 then "
                  "reaches element 0)",
       .operands = {{"x"}},
       .attrs = {dim,
                 {"start", AttrKind::kInt, "first element"},
                 {"stop", AttrKind::kInt, "first element not taken"},
                 {"step", AttrKind::kInt, "distance, not 0", int64_t{1}}},
       .infer = InferSlice,
       .axes = SliceAxes,
       .resize = SliceResize,
       .work = MoveWork,
       .vjp = Vjp<SliceVjp>,
       .reference = SliceReference,
       .samples = {{"slice(f32[4,6]) {dim=1, start=1, stop=5}"},
                   {"slice(f32[4,6]) {dim=-1, start=0, stop=6}"},
                   {"slice(f32[6,4]) {dim=0, start=5, stop=-1, step=-2}"},
                   {"slice(i64[2,6]) {dim=1, start=0, stop=6, step=4}"}}},
      {.name = "concat",
       .summary = "operands joined along `dim`",
       .operands = {{"xs", OperandDef::kVariadic}},
       .attrs = {dim},
       .infer = InferConcat,
       .axes = ConcatAxes,
       .work = ConcatWork,
       .vjp = Vjp<ConcatVjp>,
       .reference = ConcatReference,
       .samples = {{"concat(f32[4,6], f32[4,2]) {dim=1}"},
                   {"concat(i64[2,4], i64[2,4], i64[1,4]) {dim=0}"},
                   {"concat(f32[4,6]) {dim=-2}"}}},
  };
}

}  // namespace asyra::ops
