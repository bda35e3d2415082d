// Parts of values, and elements picked by index.
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
  // Of a distance of 2^63 or a step of -2^63 the first element is all there is.
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

// A dimension that is cut lies whole in every part, so only the end of one
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

// Zeros of x's shape but for `size` along `dim`.
ValueId ZerosLike(Gradient& g, int dim, int64_t size) {
  Shape shape = g.type(g.x()).shape();
  shape[dim] = size;
  return g.Op("broadcast", {g.Scalar(0, g.x())},
              {{"shape", Ints(shape.begin(), shape.end())}});
}

Gradients PadVjp(Gradient& g) {
  Type x = g.type(g.x());
  SliceAttrs slice(g.attrs(), x.rank());
  int64_t after = x.size(slice.dim) - slice.stop;
  Gradients parts;
  if (slice.start > 0) parts.push_back(ZerosLike(g, slice.dim, slice.start));
  parts.push_back(g.dy());
  if (after > 0) parts.push_back(ZerosLike(g, slice.dim, after));
  return {g.Op("concat", parts, {{"dim", int64_t{slice.dim}}})};
}

absl::StatusOr<std::vector<ValueId>> SliceVjp(Builder& builder,
                                              const VjpCall& call) {
  if (call.attrs.Int("step") == 1) return Vjp<PadVjp>(builder, call);
  return Unimplemented("slice: no gradient for step {}",
                       call.attrs.Int("step"));
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
      call.operands, call.results);
}

// An index counted from the end when negative.
absl::StatusOr<int64_t> Position(int64_t index, int64_t size) {
  if (index < -size || index >= size) {
    return Invalid("index {} is not in [{}, {})", index, -size, size);
  }
  return index < 0 ? index + size : index;
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

// gather_nd -----------------------------------------------------------------

// Where the dimensions of x and indices end: x is [batch, indexed, rest],
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

absl::StatusOr<std::vector<Type>> InferGatherNd(const OpCall& call) {
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
      call.operands, call.results);
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
       .vjp = SliceVjp,
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
      {.name = "gather",
       .summary = "rows of x along `dim` by index, negative ones counted from "
                  "the end; indices' dimensions take the place of `dim`",
       .operands = {{"x"}, {"indices"}},
       .attrs = {dim},
       .infer = InferGather,
       .axes = GatherAxes,
       .work = MoveWork,
       .reference = GatherReference,
       .samples = {{"gather(f32[6,4], i64[2,4]) {dim=0}"},
                   {"gather(f32[2,6,4], i32[4]) {dim=1}", -6, 5},
                   {"gather(i64[6], i64[]) {dim=0}", 0, 5}}},
      {.name = "gather_nd",
       .summary = "the slices of x that the rows of indices point to, as "
                  "GatherND of ONNX",
       .operands = {{"x"}, {"indices"}},
       .attrs = {{"batch_dims", AttrKind::kInt, "leading dimensions in common",
                  int64_t{0}}},
       .infer = InferGatherNd,
       .axes = GatherNdAxes,
       .work = MoveWork,
       .reference = GatherNdReference,
       .samples = {{"gather_nd(f32[4,4,6], i64[2,2])"},
                   {"gather_nd(f32[2,4,6], i64[2,4,1]) {batch_dims=1}"},
                   {"gather_nd(f32[4,4], i64[6,2])"}}},
  };
}

}  // namespace asyra::ops
