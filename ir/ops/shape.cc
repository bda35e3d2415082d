// Values without operands, and the same elements under another shape.
#include <numeric>

#include "ir/ops/gradient.h"
#include "ir/ops/infer.h"
#include "ir/ops/op_list.h"
#include "ir/support/check.h"

namespace asyra::ops {
namespace {

// For ops whose attribute `shape` is that of the result.
void ResizeShape(AttrMap* attrs, absl::Span<const Type> results) {
  Shape shape = results[0].shape();
  attrs->Set("shape", Ints(shape.begin(), shape.end()));
}

// constant ------------------------------------------------------------------

absl::StatusOr<std::vector<Type>> InferConstant(const OpCall& call) {
  const Tensor& value = call.attrs.Get<Tensor>("value");
  return std::vector<Type>{Type(value.dtype(), value.shape())};
}

absl::StatusOr<AxisRule> ConstantAxes(const OpCall& call) {
  return ParseAxisRule("-> " + DimSpec(0, call.results[0].rank()),
                       call.operands, call.results);
}

absl::Status ConstantReference(const RefCall& call) {
  call.results[0] = Shard(call.attrs.Get<Tensor>("value"), call.result_types[0],
                          call.mesh, call.device);
  return absl::OkStatus();
}

// It is in memory before the first step.
Work NoWork(const OpCall&) { return {}; }

// iota ----------------------------------------------------------------------

absl::StatusOr<std::vector<Type>> InferIota(const OpCall& call) {
  DType dtype = call.attrs.Get<DType>("dtype");
  ASYRA_ASSIGN_OR_RETURN(Shape shape, RequireShape(call, dtype));
  ASYRA_RETURN_IF_ERROR(
      RequireDim(call, "dim", static_cast<int>(shape.size())).status());
  return std::vector<Type>{Type(dtype, shape)};
}

absl::StatusOr<AxisRule> IotaAxes(const OpCall& call) {
  ASYRA_ASSIGN_OR_RETURN(AxisRule rule, ConstantAxes(call));
  for (Factor& factor : rule.factors) factor.positional = true;
  return rule;
}

absl::Status IotaReference(const RefCall& call) {
  Tensor& out = call.results[0];
  int dim = NormalizeDim(call.attrs.Int("dim"), out.rank());
  int64_t start =
      ShardStart(call.result_types[0].dims[dim], call.mesh, call.device);
  Along along(out.shape(), dim);
  for (int64_t i = 0; i < out.num_elements(); ++i) {
    out.SetInt(i, start + i / along.inner % along.size);
  }
  return absl::OkStatus();
}

// reshape -------------------------------------------------------------------

absl::StatusOr<std::vector<Type>> InferReshape(const OpCall& call) {
  const Type& x = call.operands[0];
  ASYRA_ASSIGN_OR_RETURN(Shape shape, RequireShape(call, x.dtype));
  if (NumElements(shape) != x.num_elements()) {
    return Invalid("{} has {} elements, {} has {}", ShapeToString(x.shape()),
                   x.num_elements(), ShapeToString(shape), NumElements(shape));
  }
  return std::vector<Type>{Type(x.dtype, shape)};
}

// Binds the dimensions of both shapes to their common factors, outermost
// first: [128] -> [8,16] is (a b) -> a b, and [4,6] -> [2,12] is
// (a b) c -> a (b c).
class CommonFactors {
 public:
  CommonFactors(const Shape& from, const Shape& to) : from_(from), to_(to) {
    rule_.operands.emplace_back(from.size());
    rule_.results.emplace_back(to.size());
  }

  AxisRule Find() && {
    if (NumElements(from_) == 0) return std::move(rule_);
    while (Load(from_, &i_, &a_) && Load(to_, &j_, &b_)) {
      int64_t common = std::gcd(a_, b_);
      if (common == 1) {
        SkipBlock();
        continue;
      }
      FactorId id = New(common, FactorKind::kParallel);
      rule_.operands[0][i_].push_back(id);
      rule_.results[0][j_].push_back(id);
      a_ /= common;
      b_ /= common;
    }
    return std::move(rule_);
  }

 private:
  // Makes `rest` what is left of dimension *at, passing over those used up.
  // False at the end of the shape.
  static bool Load(const Shape& shape, size_t* at, int64_t* rest) {
    while (*rest == 1) {
      if (++*at >= shape.size()) return false;
      *rest = shape[*at];
    }
    return true;
  }

  FactorId New(int64_t size, FactorKind kind) {
    rule_.factors.push_back(
        {fmt::format("f{}", rule_.factors.size()), size, kind});
    return static_cast<FactorId>(rule_.factors.size() - 1);
  }

  // The remainders have no common outer factor: the dimensions up to where both
  // sides have the same number of elements again must be whole.
  void SkipBlock() {
    int64_t product_a = a_, product_b = b_;
    TakeWhole(&rule_.operands[0][i_], &a_);
    TakeWhole(&rule_.results[0][j_], &b_);
    while (product_a != product_b) {
      if (product_a < product_b) {
        ASYRA_CHECK(Load(from_, &i_, &a_));
        product_a *= a_;
        TakeWhole(&rule_.operands[0][i_], &a_);
      } else {
        ASYRA_CHECK(Load(to_, &j_, &b_));
        product_b *= b_;
        TakeWhole(&rule_.results[0][j_], &b_);
      }
    }
  }

  void TakeWhole(DimFactors* dim, int64_t* rest) {
    dim->push_back(New(*rest, FactorKind::kWhole));
    *rest = 1;
  }

  const Shape& from_;
  const Shape& to_;
  size_t i_ = -1, j_ = -1;  // dimensions, -1: before the first
  int64_t a_ = 1, b_ = 1;   // their remainders
  AxisRule rule_;
};

absl::StatusOr<AxisRule> ReshapeAxes(const OpCall& call) {
  Shape from = call.operands[0].shape(), to = call.results[0].shape();
  AxisRule rule = CommonFactors(from, to).Find();
  // Dimensions of size 1 that both shapes begin with are the same ones: a
  // batch of one is still the batch when tiles of it are joined.
  for (size_t d = 0; d < from.size() && d < to.size() && from[d] == to[d];
       ++d) {
    if (from[d] != 1) continue;
    FactorId id = static_cast<FactorId>(rule.factors.size());
    rule.factors.push_back({fmt::format("f{}", id), 1, FactorKind::kParallel});
    rule.operands[0][d] = {id};
    rule.results[0][d] = {id};
  }
  rule.linearity = Linearity::kJoint;
  return rule;
}

absl::Status ReshapeReference(const RefCall& call) {
  Shape local = call.results[0].shape();
  call.results[0] = call.operands[0].Reshaped(local);
  return absl::OkStatus();
}

Gradients ReshapeVjp(Gradient& g) {
  return {g.Reshape(g.dy(), g.type(g.x()).shape())};
}

// transpose -----------------------------------------------------------------

absl::StatusOr<std::vector<Type>> InferTranspose(const OpCall& call) {
  const Type& x = call.operands[0];
  ASYRA_ASSIGN_OR_RETURN(std::vector<int> perm,
                         RequireDims(call, "perm", x.rank()));
  if (static_cast<int>(perm.size()) != x.rank()) {
    return Invalid("perm has {} dims, the operand has {}", perm.size(),
                   x.rank());
  }
  Type type(x.dtype, {});
  for (int dim : perm) type.dims.push_back(x.dims[dim]);
  return std::vector<Type>{type};
}

absl::StatusOr<AxisRule> TransposeAxes(const OpCall& call) {
  int rank = call.operands[0].rank();
  std::string spec = DimSpec(0, rank) + " ->";
  for (int64_t dim : call.attrs.Get<Ints>("perm")) {
    spec += fmt::format(" d{}", NormalizeDim(dim, rank));
  }
  return ParseAxisRule(spec, call.operands, call.results, Linearity::kJoint);
}

absl::Status TransposeReference(const RefCall& call) {
  const Tensor& in = call.operands[0];
  Tensor& out = call.results[0];
  Shape own = RowMajorStrides(in.shape()), strides;
  for (int64_t dim : call.attrs.Get<Ints>("perm")) {
    strides.push_back(own[NormalizeDim(dim, in.rank())]);
  }
  CopyElements(in, StridedIndex(out.shape(), strides), &out);
  return absl::OkStatus();
}

Gradients TransposeVjp(Gradient& g) {
  const Ints& perm = g.attrs().Get<Ints>("perm");
  Ints inverse(perm.size());
  int rank = static_cast<int>(perm.size());
  for (int i = 0; i < rank; ++i) inverse[NormalizeDim(perm[i], rank)] = i;
  return {g.Op("transpose", {g.dy()}, {{"perm", inverse}})};
}

// broadcast -----------------------------------------------------------------

absl::StatusOr<std::vector<Type>> InferBroadcast(const OpCall& call) {
  const Type& x = call.operands[0];
  ASYRA_ASSIGN_OR_RETURN(Shape shape, RequireShape(call, x.dtype));
  int lead = static_cast<int>(shape.size()) - x.rank();
  bool fits = lead >= 0;
  for (int d = 0; fits && d < x.rank(); ++d) {
    fits = x.size(d) == 1 || x.size(d) == shape[lead + d];
  }
  if (!fits) {
    return Invalid("{} does not broadcast to {}", ShapeToString(x.shape()),
                   ShapeToString(shape));
  }
  return std::vector<Type>{Type(x.dtype, shape)};
}

absl::StatusOr<AxisRule> BroadcastAxes(const OpCall& call) {
  return ParseAxisRule("... -> ...", call.operands, call.results,
                       Linearity::kJoint);
}

absl::Status BroadcastReference(const RefCall& call) {
  const Tensor& in = call.operands[0];
  Tensor& out = call.results[0];
  CopyElements(in, BroadcastIndex(in.shape(), out.shape()), &out);
  return absl::OkStatus();
}

}  // namespace

std::vector<OpDef> ShapeOps() {
  const AttrDef shape = {"shape", AttrKind::kInts, "sizes, all given"};
  return {
      {.name = "constant",
       .summary = "the tensor `value`",
       .operands = {},
       .attrs = {{"value", AttrKind::kTensor, "what it holds"}},
       .infer = InferConstant,
       .axes = ConstantAxes,
       .work = NoWork,
       .reference = ConstantReference,
       .samples = {{"constant() {value=i64[2,4](0, 1, 2, 3, 4, 5, 6, 7)}"},
                   {"constant() {value=f32[](0.5)}"}}},
      {.name = "iota",
       .summary = "the index along `dim`",
       .operands = {},
       .attrs = {shape,
                 {"dim", AttrKind::kInt, "dimension that is counted"},
                 {"dtype", AttrKind::kDType, "element type"}},
       .infer = InferIota,
       .axes = IotaAxes,
       .resize = ResizeShape,
       .reference = IotaReference,
       .samples = {{"iota() {shape=[4, 6], dim=1, dtype=i64}"},
                   {"iota() {shape=[4, 6], dim=0, dtype=f32}"}}},
      {.name = "reshape",
       .summary = "the same elements in row-major order, as `shape`",
       .operands = {{"x"}},
       .attrs = {shape},
       .infer = InferReshape,
       .axes = ReshapeAxes,
       .resize = ResizeShape,
       .vjp = Vjp<ReshapeVjp>,
       .reference = ReshapeReference,
       .samples = {{"reshape(f32[2,4,32]) {shape=[2, 4, 4, 8]}"},
                   {"reshape(f32[2,4,4,8]) {shape=[8, 32]}"},
                   {"reshape(f32[4,6]) {shape=[2, 12]}"},
                   {"reshape(f32[6,4]) {shape=[4, 1, 6]}"},
                   {"reshape(f32[2,3,4]) {shape=[2, 4, 3]}"}},
       .is_view = true},
      {.name = "transpose",
       .summary = "dimension i of the result is dimension perm[i] of x",
       .operands = {{"x"}},
       .attrs = {{"perm", AttrKind::kInts, "every dimension once"}},
       .infer = InferTranspose,
       .axes = TransposeAxes,
       .work = MoveWork,
       .vjp = Vjp<TransposeVjp>,
       .reference = TransposeReference,
       .samples = {{"transpose(f32[4,6]) {perm=[1, 0]}"},
                   {"transpose(i64[2,4,3,6]) {perm=[0, 2, 1, 3]}"},
                   {"transpose(f32[2,4,6]) {perm=[2, 0, 1]}"}}},
      {.name = "broadcast",
       .summary = "x repeated to `shape` by NumPy's rule",
       .operands = {{"x"}},
       .attrs = {shape},
       .infer = InferBroadcast,
       .axes = BroadcastAxes,
       .resize = ResizeShape,
       .work = MoveWork,
       .vjp = Vjp<[](Gradient& g) { return Gradients{g.dy()}; }>,
       .reference = BroadcastReference,
       .samples = {{"broadcast(f32[4,1]) {shape=[2, 4, 6]}"},
                   {"broadcast(bool[4,6]) {shape=[4, 6]}", 0, 1}},
       .fusable = Fusable::kElement},
  };
}

}  // namespace asyra::ops
