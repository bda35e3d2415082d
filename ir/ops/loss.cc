// Losses of rows of logits.
//
// cross_entropy wants whole rows; loss_parts.cc has the same in parts of the
// vocabulary, which may be sharded.
#include <cmath>

#include "ir/ops/gradient.h"
#include "ir/ops/infer.h"
#include "ir/ops/op_list.h"

namespace asyra::ops {
namespace {

absl::StatusOr<std::vector<Type>> Infer(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(RequireFloat(call, 0));
  ASYRA_RETURN_IF_ERROR(RequireRank(call, 0, 1));
  ASYRA_RETURN_IF_ERROR(RequireInteger(call, 1));
  Type rows = call.operands[0];
  rows.dims.pop_back();
  if (rows.shape() != call.operands[1].shape()) {
    return Invalid("logits have shape {}, labels {}",
                   ShapeToString(call.operands[0].shape()),
                   ShapeToString(call.operands[1].shape()));
  }
  double smoothing = call.attrs.Float("label_smoothing");
  if (!(smoothing >= 0 && smoothing <= 1)) {
    return Invalid("label_smoothing is {}, it should be in [0, 1]", smoothing);
  }
  return std::vector<Type>{rows};
}

absl::StatusOr<AxisRule> Axes(const OpCall& call) {
  return ParseAxisRule("... !v, ... -> ...", call.operands, call.results);
}

double LogSumExp(absl::Span<const double> row) {
  double largest = *std::max_element(row.begin(), row.end()), sum = 0;
  if (std::isinf(largest)) return largest;
  for (double value : row) sum += std::exp(value - largest);
  return largest + std::log(sum);
}

absl::Status Reference(const RefCall& call) {
  const Tensor& logits = call.operands[0];
  std::vector<double> x = logits.ToDoubles();
  std::vector<int64_t> labels = call.operands[1].ToInts();
  int64_t size = logits.size(logits.rank() - 1);
  int64_t ignored = call.attrs.Int("ignore_index");
  double smoothing = call.attrs.Float("label_smoothing");
  std::vector<double> losses(labels.size(), 0.0);
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == ignored) continue;
    if (labels[i] < 0 || labels[i] >= size) {
      return Invalid("label {} is not in [0, {})", labels[i], size);
    }
    absl::Span<const double> row(&x[i * size], size);
    double target = (1 - smoothing) * row[labels[i]];
    for (double value : row) {
      if (smoothing > 0)
        target += smoothing / static_cast<double>(size) * value;
    }
    losses[i] = LogSumExp(row) - target;
  }
  call.results[0].SetAll(losses);
  return absl::OkStatus();
}

Work LossWork(const OpCall& local) {
  Work work = {.flops =
                   3 * static_cast<double>(local.operands[0].num_elements())};
  for (const Type& type : local.operands) {
    work.read_bytes += static_cast<double>(type.bytes());
  }
  work.write_bytes = static_cast<double>(local.results[0].bytes());
  // It goes through a row for the largest, and for the sum.
  const Type& x = local.operands[0];
  work.row_bytes = static_cast<double>(x.dims.back().size * SizeOf(x.dtype));
  work.reread_bytes = static_cast<double>(x.bytes());
  return work;
}

// dy (softmax(x) - target), where no row is ignored.
Gradients CrossEntropyVjp(Gradient& g) {
  const Type& x = g.type(g.x(0));
  int64_t size = x.size(x.rank() - 1), ignored = g.attrs().Int("ignore_index");
  double smoothing = g.attrs().Float("label_smoothing");
  ValueId number =
      g.Op("constant", {},
           {{"value", Tensor::FromInts(g.type(g.x(1)).dtype, {}, {ignored})}});
  ValueId dy = g.Op(
      "select", {g.Op("equal", {g.x(1), number}), g.Scalar(0, g.dy()), g.dy()});
  Shape column = g.type(dy).shape();
  column.push_back(1);
  dy = g.Reshape(dy, column);
  std::vector<ValueId> parts = g.Ops("cross_entropy_parts", {g.x(0), g.x(1)},
                                     {{"ignore_index", ignored}});
  ValueId of_sums = g.Cast(dy, g.type(parts[0]).dtype);
  ValueId of_targets = g.Scale(smoothing - 1, of_sums);
  ValueId dx = g.Op("cross_entropy_parts_grad",
                    {g.x(0), g.x(1), parts[0], of_sums, of_targets});
  if (smoothing > 0) {
    dx = g.Sub(dx, g.Scale(smoothing / static_cast<double>(size), dy));
  }
  return {dx, kNoValue};
}

}  // namespace

std::vector<OpDef> LossOps() {
  std::vector<OpDef> ops = LossPartOps();
  ops.insert(
      ops.begin(),
      {.name = "cross_entropy",
       .summary = "-log softmax(logits [..., V])[label] of each row; of a "
                  "row labelled `ignore_index` 0",
       .operands = {{"logits"}, {"labels"}},
       .attrs = {{"ignore_index", AttrKind::kInt, "label without loss",
                  int64_t{-100}},
                 {"label_smoothing", AttrKind::kFloat,
                  "part of the target that all labels share", 0.0}},
       .infer = Infer,
       .axes = Axes,
       .work = LossWork,
       .vjp = Vjp<CrossEntropyVjp>,
       .reference = Reference,
       .samples = {{"cross_entropy(f32[2,4,8], i64[2,4])", 0, 3},
                   {"cross_entropy(f32[4,6], i32[4]) {ignore_index=2, "
                    "label_smoothing=0.25}",
                    0, 3}}});
  return ops;
}

}  // namespace asyra::ops
