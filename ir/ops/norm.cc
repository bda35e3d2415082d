// Normalizations over the last dimension, computed in f32 or wider.
#include <cmath>

#include "ir/ops/gradient.h"
#include "ir/ops/infer.h"
#include "ir/ops/op_list.h"

namespace asyra::ops {
namespace {

// Every operand after x is a vector over x's last dimension.
absl::StatusOr<std::vector<Type>> Infer(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(RequireSameDType(call));
  ASYRA_RETURN_IF_ERROR(RequireFloat(call, 0));
  ASYRA_RETURN_IF_ERROR(RequireRank(call, 0, 1));
  const Type& x = call.operands[0];
  int64_t size = x.size(x.rank() - 1);
  for (size_t i = 1; i < call.operands.size(); ++i) {
    if (call.operands[i].shape() != Shape{size}) {
      return Invalid(
          "{} has shape {}, x dim {} is {}", call.def.operands[i].name,
          ShapeToString(call.operands[i].shape()), x.rank() - 1, size);
    }
  }
  return SameAsFirst(call);
}

absl::StatusOr<AxisRule> Axes(const OpCall& call) {
  std::string spec = "... !d";
  for (size_t i = 1; i < call.operands.size(); ++i) spec += ", !d";
  return ParseAxisRule(spec + " -> ... !d", call.operands, call.results);
}

// Square, sum, scale by the norm and by `scale`, and for layer_norm the mean.
Work NormWork(const OpCall& local) {
  Work work = MoveWork(local);
  double elements = static_cast<double>(local.results[0].num_elements());
  bool rms = local.def.name == "rms_norm";
  work.flops = (rms ? 4 : 7) * elements;
  // It goes through a row for the mean square, or for mean and variance, and
  // for the result.
  const Type& x = local.operands[0];
  work.row_bytes = static_cast<double>(x.dims.back().size * SizeOf(x.dtype));
  work.reread_bytes = (rms ? 1 : 2) * static_cast<double>(x.bytes());
  return work;
}

// Calls visit(row) for every row of `size` values.
template <typename Visit>
void ForEachRow(std::vector<double>* values, size_t size, Visit visit) {
  for (size_t i = 0; i < values->size(); i += size) {
    visit(absl::MakeSpan(*values).subspan(i, size));
  }
}

double MeanSquare(absl::Span<const double> row) {
  double sum = 0;
  for (double value : row) sum += value * value;
  return sum / static_cast<double>(row.size());
}

absl::Status RmsReference(const RefCall& call) {
  std::vector<double> x = call.operands[0].ToDoubles();
  std::vector<double> scale = call.operands[1].ToDoubles();
  double eps = call.attrs.Float("eps");
  ForEachRow(&x, scale.size(), [&](absl::Span<double> row) {
    double inverse = 1 / std::sqrt(MeanSquare(row) + eps);
    for (size_t i = 0; i < row.size(); ++i) row[i] *= inverse * scale[i];
  });
  call.results[0].SetAll(x);
  return absl::OkStatus();
}

absl::Status LayerReference(const RefCall& call) {
  std::vector<double> x = call.operands[0].ToDoubles();
  std::vector<double> scale = call.operands[1].ToDoubles();
  std::vector<double> bias(scale.size(), 0.0);
  if (call.operands.size() > 2) bias = call.operands[2].ToDoubles();
  double eps = call.attrs.Float("eps");
  ForEachRow(&x, scale.size(), [&](absl::Span<double> row) {
    double mean = 0;
    for (double value : row) mean += value;
    mean /= static_cast<double>(row.size());
    for (double& value : row) value -= mean;
    double inverse = 1 / std::sqrt(MeanSquare(row) + eps);
    for (size_t i = 0; i < row.size(); ++i) {
      row[i] = row[i] * inverse * scale[i] + bias[i];
    }
  });
  call.results[0].SetAll(x);
  return absl::OkStatus();
}

Gradients RmsVjp(Gradient& g) {
  return g.Ops("rms_norm_grad", {g.x(0), g.x(1), g.dy()},
               {{"eps", g.attrs().Float("eps")}});
}

Gradients LayerVjp(Gradient& g) {
  return g.Ops(
      "layer_norm_grad", {g.x(0), g.x(1), g.dy()},
      {{"eps", g.attrs().Float("eps")}, {"bias", g.num_operands() > 2}});
}

}  // namespace

std::vector<OpDef> NormOps() {
  const AttrDef eps = {"eps", AttrKind::kFloat, "added under the root"};
  std::vector<OpDef> ops = {
      {.name = "rms_norm",
       .summary = "x / sqrt(mean(x^2) + eps) * scale",
       .operands = {{"x"}, {"scale"}},
       .attrs = {eps},
       .infer = Infer,
       .axes = Axes,
       .work = NormWork,
       .vjp = Vjp<RmsVjp>,
       .reference = RmsReference,
       .samples = {{"rms_norm(f32[2,4,6], f32[6]) {eps=0.125}"}},
       .fusable = Fusable::kRow},
      {.name = "layer_norm",
       .summary = "(x - mean(x)) / sqrt(variance(x) + eps) * scale + bias",
       .operands = {{"x"}, {"scale"}, {"bias", OperandDef::kOptional}},
       .attrs = {eps},
       .infer = Infer,
       .axes = Axes,
       .work = NormWork,
       .vjp = Vjp<LayerVjp>,
       .reference = LayerReference,
       .samples = {{"layer_norm(f32[4,6], f32[6], f32[6]) {eps=0.125}"},
                   {"layer_norm(f32[2,4,6], f32[6]) {eps=0.125}"}},
       .fusable = Fusable::kRow},
  };
  for (OpDef& def : NormGradOps()) ops.push_back(std::move(def));
  return ops;
}

}  // namespace asyra::ops
