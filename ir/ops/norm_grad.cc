// Gradients of normalizations over the last dimension, computed in f32 or
// wider. With n = (x - mean) r, r = 1 / sqrt(variance + eps) and dn = dy scale,
//   dx = r (dn - n mean(dn n) - mean(dn))
// where rms_norm has 0 for both means of x and dn. They sum over all rows for
// the gradients of scale and bias: f32 of 16-bit values, as parameters want
// them.
#include <cmath>

#include "ir/ops/infer.h"
#include "ir/ops/op_list.h"

namespace asyra::ops {
namespace {

bool IsCentered(const OpDef& def) { return def.name == "layer_norm_grad"; }

// Operands x, scale, dy and, optionally, what is added to dx.
absl::StatusOr<std::vector<Type>> Infer(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(RequireSameDType(call));
  ASYRA_RETURN_IF_ERROR(RequireFloat(call, 0));
  ASYRA_RETURN_IF_ERROR(RequireRank(call, 0, 1));
  const Type& x = call.operands[0];
  int64_t size = x.size(x.rank() - 1);
  for (size_t i = 1; i < call.operands.size(); ++i) {
    Shape expected = i == 1 ? Shape{size} : x.shape();
    if (call.operands[i].shape() != expected) {
      return Invalid(
          "{} has shape {}, it should be {}", call.def.operands[i].name,
          ShapeToString(call.operands[i].shape()), ShapeToString(expected));
    }
  }
  DType wide = x.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  std::vector<Type> types = {Type(x.dtype, x.shape()), Type(wide, {size})};
  if (IsCentered(call.def) && call.attrs.Bool("bias")) {
    types.push_back(types[1]);
  }
  return types;
}

absl::StatusOr<AxisRule> Axes(const OpCall& call) {
  std::string spec = "... !d, !d, ... !d";
  if (call.operands.size() > 3) spec += ", ... !d";
  spec += " -> ... !d, !d";
  if (call.results.size() > 2) spec += ", !d";
  return ParseAxisRule(spec, call.operands, call.results);
}

// A kernel holds a row; sums over rows are of a few hundred blocks.
Work NormGradWork(const OpCall& local) {
  constexpr double kBlocks = 264;
  Work work;
  const Type& x = local.operands[0];
  work.flops =
      (IsCentered(local.def) ? 16 : 12) * static_cast<double>(x.num_elements());
  for (const Type& type : local.operands) {
    work.read_bytes += static_cast<double>(type.bytes());
  }
  for (size_t i = 0; i < local.results.size(); ++i) {
    double bytes = static_cast<double>(local.results[i].bytes());
    work.write_bytes += bytes;
    if (i == 0) continue;
    double rows = static_cast<double>(x.num_elements()) /
                  std::max(1.0, static_cast<double>(x.dims.back().size));
    work.scratch_bytes += bytes * std::min(kBlocks, rows);
  }
  work.row_bytes =
      2 * static_cast<double>(x.dims.back().size * SizeOf(x.dtype));
  work.reread_bytes = 2 * static_cast<double>(x.bytes());
  return work;
}

double Mean(absl::Span<const double> row) {
  double sum = 0;
  for (double value : row) sum += value;
  return row.empty() ? 0 : sum / static_cast<double>(row.size());
}

// n of a row in place of x; returns r.
double Normalize(absl::Span<double> x, bool centered, double eps) {
  double mean = centered ? Mean(x) : 0, square = 0;
  for (double& value : x) {
    value -= mean;
    square += value * value;
  }
  double r = 1 / std::sqrt(square / static_cast<double>(x.size()) + eps);
  for (double& value : x) value *= r;
  return r;
}

absl::Status Reference(const RefCall& call) {
  std::vector<double> x = call.operands[0].ToDoubles();
  std::vector<double> scale = call.operands[1].ToDoubles();
  std::vector<double> dy = call.operands[2].ToDoubles(), rest(x.size(), 0.0);
  if (call.operands.size() > 3) rest = call.operands[3].ToDoubles();
  bool centered = IsCentered(call.def);
  size_t size = scale.size();
  std::vector<double> dscale(size, 0.0), dbias(size, 0.0), dn(size), by_n(size);
  for (size_t first = 0; first < x.size(); first += size) {
    absl::Span<double> n = absl::MakeSpan(x).subspan(first, size);
    double r = Normalize(n, centered, call.attrs.Float("eps"));
    for (size_t i = 0; i < size; ++i) {
      dscale[i] += dy[first + i] * n[i];
      dbias[i] += dy[first + i];
      dn[i] = dy[first + i] * scale[i];
      by_n[i] = dn[i] * n[i];
    }
    double shift = centered ? Mean(dn) : 0, slope = Mean(by_n);
    for (size_t i = 0; i < size; ++i) {
      n[i] = r * (dn[i] - n[i] * slope - shift) + rest[first + i];
    }
  }
  call.results[0].SetAll(x);
  call.results[1].SetAll(dscale);
  if (call.results.size() > 2) call.results[2].SetAll(dbias);
  return absl::OkStatus();
}

}  // namespace

std::vector<OpDef> NormGradOps() {
  const AttrDef eps = {"eps", AttrKind::kFloat, "added under the root"};
  std::vector<OperandDef> operands = {
      {"x"}, {"scale"}, {"dy"}, {"rest", OperandDef::kOptional}};
  return {
      {.name = "rms_norm_grad",
       .summary = "gradients of rms_norm by that of its result: of x, plus "
                  "`rest` if it is given, and of scale, f32 of 16-bit values",
       .operands = operands,
       .attrs = {eps},
       .infer = Infer,
       .axes = Axes,
       .work = NormGradWork,
       .reference = Reference,
       .samples = {{"rms_norm_grad(f32[2,4,6], f32[6], f32[2,4,6]) "
                    "{eps=0.125}"},
                   {"rms_norm_grad(bf16[4,16], bf16[16], bf16[4,16], "
                    "bf16[4,16]) {eps=0.125}"}}},
      {.name = "layer_norm_grad",
       .summary = "gradients of layer_norm by that of its result: of x, plus "
                  "`rest` if it is given, of scale and, with `bias`, of bias; "
                  "the latter f32 of 16-bit values",
       .operands = operands,
       .attrs = {eps,
                 {"bias", AttrKind::kBool, "gives the gradient of bias",
                  false}},
       .infer = Infer,
       .axes = Axes,
       .work = NormGradWork,
       .reference = Reference,
       .samples = {{"layer_norm_grad(f32[2,4,6], f32[6], f32[2,4,6]) "
                    "{eps=0.125}"},
                   {"layer_norm_grad(f32[8,16], f32[16], f32[8,16], "
                    "f32[8,16]) {eps=0.125, bias=true}"},
                   {"layer_norm_grad(bf16[4,6], bf16[6], bf16[4,6]) "
                    "{eps=0.125, bias=true}"}}},
  };
}

}  // namespace asyra::ops
