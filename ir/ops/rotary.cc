// Rotary position embedding.
#include "ir/ops/gradient.h"
#include "ir/ops/infer.h"
#include "ir/ops/op_list.h"

namespace asyra::ops {
namespace {

absl::StatusOr<std::vector<Type>> InferRotary(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(RequireSameDType(call));
  ASYRA_RETURN_IF_ERROR(RequireFloat(call, 0));
  const Type& x = call.operands[0];
  const Type& cos = call.operands[1];
  if (x.rank() != 4) return Invalid("x has rank {}, it should be 4", x.rank());
  if (cos.shape() != call.operands[2].shape()) {
    return Invalid("cos has shape {}, sin has {}", ShapeToString(cos.shape()),
                   ShapeToString(call.operands[2].shape()));
  }
  int rank = cos.rank();
  if ((rank != 2 && rank != 3) || cos.size(rank - 2) != x.size(1) ||
      (rank == 3 && cos.size(0) != 1 && cos.size(0) != x.size(0)) ||
      cos.size(rank - 1) > x.size(3) / 2) {
    return Invalid("cos has shape {}, x has {}", ShapeToString(cos.shape()),
                   ShapeToString(x.shape()));
  }
  return SameAsFirst(call);
}

absl::StatusOr<AxisRule> RotaryAxes(const OpCall& call) {
  const Type& cos = call.operands[1];
  std::string table = cos.rank() == 2    ? "s !r"
                      : cos.size(0) == 1 ? "_ s !r"
                                         : "b s !r";
  return ParseAxisRule(
      fmt::format("b s h !d, {}, {} -> b s h !d", table, table), call.operands,
      call.results);
}

absl::Status RotaryReference(const RefCall& call) {
  const Tensor& in = call.operands[0];
  const Tensor& table = call.operands[1];
  int64_t half = table.size(table.rank() - 1);
  bool interleaved = call.attrs.Bool("interleaved");
  std::vector<double> x = in.ToDoubles();
  std::vector<double> cos = table.ToDoubles();
  std::vector<double> sin = call.operands[2].ToDoubles();
  int64_t s = in.size(1), h = in.size(2), d = in.size(3);
  bool per_batch = table.rank() == 3 && table.size(0) > 1;
  for (int64_t row = 0; row < in.size(0) * s; ++row) {
    int64_t angle = (per_batch ? row : row % s) * half;
    for (int64_t head = 0; head < h; ++head) {
      double* values = x.data() + (row * h + head) * d;
      for (int64_t i = 0; i < half; ++i) {
        double& a = values[interleaved ? 2 * i : i];
        double& b = values[interleaved ? 2 * i + 1 : i + half];
        double c = cos[angle + i], w = sin[angle + i];
        double rotated = a * c - b * w;
        b = b * c + a * w;
        a = rotated;
      }
    }
  }
  call.results[0].SetAll(x);
  return absl::OkStatus();
}

// Sums over heads and pairs: what an element of the tables has multiplied.
// `values` is [B, S, H, D], of which the first elements are pairs.
ValueId SumOfPairs(Gradient& g, ValueId values) {
  Shape shape = g.type(values).shape();
  int64_t half = g.type(g.x(1)).shape().back(), rotated = 2 * half;
  if (shape[3] != rotated) {
    values =
        g.Op("slice", {values},
             {{"dim", int64_t{3}}, {"start", int64_t{0}}, {"stop", rotated}});
  }
  bool interleaved = g.attrs().Bool("interleaved");
  Shape pairs = {shape[0], shape[1], shape[2], interleaved ? half : 2,
                 interleaved ? 2 : half};
  Ints dims = {2, interleaved ? 4 : 3};
  return g.Op("reduce_sum", {g.Reshape(values, pairs)},
              {{"dims", dims}, {"keep", false}});
}

// Turns back by the same angles. Angles may follow from data or parameters, as
// those of learned frequencies do; x turned by a right angle is the slope of
// sin.
Gradients RotaryVjp(Gradient& g) {
  Shape table = g.type(g.x(1)).shape();
  ValueId ones = g.Op("broadcast", {g.Scalar(1, g.x(1))},
                      {{"shape", Ints(table.begin(), table.end())}});
  ValueId turned = g.Op("rotary", {g.x(0), g.Zeros(g.x(1)), ones}, g.attrs());
  return {g.Op("rotary", {g.dy(), g.x(1), g.Neg(g.x(2))}, g.attrs()),
          SumOfPairs(g, g.Mul(g.dy(), g.x(0))),
          SumOfPairs(g, g.Mul(g.dy(), turned))};
}

}  // namespace

std::vector<OpDef> RotaryOps() {
  OpDef rotary{
      .name = "rotary",
      .summary =
          "rotates pairs of the first R elements of the last dim of x "
          "[B, S, H, D] by angles whose cos and sin are [S, R/2] or "
          "[B, S, R/2]",
      .operands = {{"x"}, {"cos"}, {"sin"}},
      .attrs = {{"interleaved", AttrKind::kBool,
                 "pairs (2i, 2i+1) instead of (i, i + R/2)", false}},
      .infer = InferRotary,
      .axes = RotaryAxes,
      .vjp = Vjp<RotaryVjp>,
      .reference = RotaryReference,
      .samples = {{"rotary(f32[2,4,2,6], f32[4,2], f32[4,2])"},
                  {"rotary(f32[2,4,2,4], f32[2,4,2], f32[2,4,2]) "
                   "{interleaved=true}"},
                  {"rotary(bf16[2,4,1,4], bf16[1,4,1], bf16[1,4,1])"}}};
  return {rotary};
}

}  // namespace asyra::ops
