// Cross entropy of rows of logits in equal parts of the vocabulary: what each
// part contributes to the loss, and the gradient of that. Parts may be on
// different devices (passes/shard/split_loss.h). Both go through the logits
// once, in their own element type; sums are f32 or wider.
#include <cmath>

#include "ir/ops/gradient.h"
#include "ir/ops/infer.h"
#include "ir/ops/op_list.h"

namespace asyra::ops {
namespace {

const AttrDef kClasses = {
    "classes", AttrKind::kInt,
    "columns from this one on are padding, which counts for nothing; -1: none",
    int64_t{-1}};

// Logits, and labels of their rows.
absl::Status CheckRows(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(RequireFloat(call, 0));
  ASYRA_RETURN_IF_ERROR(RequireRank(call, 0, 1));
  ASYRA_RETURN_IF_ERROR(RequireInteger(call, 1));
  Shape rows = call.operands[0].shape();
  rows.pop_back();
  if (rows == call.operands[1].shape()) return absl::OkStatus();
  return Invalid("logits have shape {}, labels {}",
                 ShapeToString(call.operands[0].shape()),
                 ShapeToString(call.operands[1].shape()));
}

absl::Status CheckParts(const OpCall& call, int64_t parts) {
  int64_t size = call.operands[0].dims.back().size;
  if (parts > 0 && size % parts == 0) return absl::OkStatus();
  return Invalid("{} columns are not {} equal parts", size, parts);
}

absl::StatusOr<std::vector<Type>> InferParts(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(CheckRows(call));
  int64_t parts = call.attrs.Int("parts");
  ASYRA_RETURN_IF_ERROR(CheckParts(call, parts));
  const Type& logits = call.operands[0];
  Shape shape = call.operands[1].shape();
  shape.push_back(parts);
  return std::vector<Type>(2, Type(SumType(logits.dtype), shape));
}

absl::StatusOr<std::vector<Type>> InferGrad(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(CheckRows(call));
  const Type& sums = call.operands[2];
  ASYRA_RETURN_IF_ERROR(RequireRank(call, 2, 1));
  Shape shape = call.operands[1].shape();
  shape.push_back(sums.dims.back().size);
  Type expected(SumType(call.operands[0].dtype), shape);
  for (int i = 2; i < 5; ++i) {
    if (call.operands[i].shape() == shape &&
        call.operands[i].dtype == expected.dtype) {
      continue;
    }
    return Invalid("{} is {}, it should be {}", call.def.operands[i].name,
                   ToString(call.operands[i], {}), ToString(expected, {}));
  }
  ASYRA_RETURN_IF_ERROR(CheckParts(call, shape.back()));
  return SameAsFirst(call);
}

// Labels are columns of all parts: an op knows which parts it has.
absl::StatusOr<AxisRule> PartsAxes(const OpCall& call) {
  return ParseAxisRule("... (@p !v), ... -> ... p, ... p", call.operands,
                       call.results);
}

absl::StatusOr<AxisRule> GradAxes(const OpCall& call) {
  return ParseAxisRule("... (@p !v), ..., ... p, ... p, ... p -> ... (p v)",
                       call.operands, call.results);
}

template <int flops>
Work PartsWork(const OpCall& local) {
  Work work;
  work.flops = flops * static_cast<double>(local.operands[0].num_elements());
  for (const Type& type : local.operands) {
    work.read_bytes += static_cast<double>(type.bytes());
  }
  for (const Type& type : local.results) {
    work.write_bytes += static_cast<double>(type.bytes());
  }
  return work;
}

// Part `part` of a row, as a device sees it.
struct PartView {
  int64_t row, first;  // of its columns: the number among all devices'
  absl::Span<double> columns;
};

// Calls visit(view, number of the part) for every part this device holds.
template <typename Visit>
void ForEachPart(const RefCall& call, int64_t parts, std::vector<double>* x,
                 Visit visit) {
  int last = call.operands[0].rank() - 1;
  int64_t width = call.operands[0].size(last), start = call.Start(0, last);
  if (width == 0) return;
  int64_t size = width / parts, count = call.operands[1].num_elements() * parts;
  for (int64_t i = 0; i < count; ++i) {
    visit(PartView{i / parts, start + i % parts * size,
                   absl::MakeSpan(*x).subspan(i * size, size)},
          i);
  }
}

int64_t ClassesOf(const RefCall& call) {
  int64_t classes = call.attrs.Int("classes");
  return classes < 0 ? call.operand_types[0].dims.back().size : classes;
}

absl::Status PartsReference(const RefCall& call) {
  std::vector<double> x = call.operands[0].ToDoubles();
  std::vector<int64_t> labels = call.operands[1].ToInts();
  int64_t parts = call.results[0].size(call.results[0].rank() - 1);
  int64_t classes = ClassesOf(call), ignored = call.attrs.Int("ignore_index");
  for (int64_t label : labels) {
    if (label != ignored && (label < 0 || label >= classes)) {
      return Invalid("label {} is not in [0, {})", label, classes);
    }
  }
  std::vector<double> sums(labels.size() * parts, -HUGE_VAL);
  std::vector<double> targets(sums.size(), 0.0);
  ForEachPart(call, parts, &x, [&](const PartView& part, int64_t i) {
    auto size = static_cast<int64_t>(part.columns.size());
    int64_t real = std::clamp<int64_t>(classes - part.first, 0, size);
    double most = -HUGE_VAL, sum = 0;
    for (int64_t c = 0; c < real; ++c) most = std::max(most, part.columns[c]);
    for (int64_t c = 0; c < real; ++c) sum += std::exp(part.columns[c] - most);
    sums[i] = std::isinf(most) ? most : most + std::log(sum);
    int64_t at = labels[part.row] - part.first;
    if (labels[part.row] != ignored && at >= 0 && at < real) {
      targets[i] = part.columns[at];
    }
  });
  call.results[0].SetAll(sums);
  call.results[1].SetAll(targets);
  return absl::OkStatus();
}

absl::Status GradReference(const RefCall& call) {
  std::vector<double> x = call.operands[0].ToDoubles();
  std::vector<int64_t> labels = call.operands[1].ToInts();
  std::vector<double> sums = call.operands[2].ToDoubles();
  std::vector<double> of_sums = call.operands[3].ToDoubles();
  std::vector<double> of_targets = call.operands[4].ToDoubles();
  int64_t parts = call.operands[2].size(call.operands[2].rank() - 1);
  int64_t classes = ClassesOf(call);
  ForEachPart(call, parts, &x, [&](const PartView& part, int64_t i) {
    int64_t at = labels[part.row] - part.first;
    bool is_zero = of_sums[i] == 0 && of_targets[i] == 0;
    for (int64_t c = 0; c < static_cast<int64_t>(part.columns.size()); ++c) {
      double& value = part.columns[c];
      value = is_zero || part.first + c >= classes
                  ? 0
                  : of_sums[i] * std::exp(value - sums[i]) +
                        (c == at ? of_targets[i] : 0);
    }
  });
  call.results[0].SetAll(x);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ValueId>> PartsVjp(Builder& builder,
                                              const VjpCall& call) {
  Gradient g(builder, call);
  std::vector<ValueId> operands = {g.x(0), g.x(1), g.y(0)};
  for (ValueId gradient : call.gradients) {
    operands.push_back(gradient == kNoValue ? g.Zeros(g.y(0)) : gradient);
  }
  return std::vector<ValueId>{g.Op("cross_entropy_parts_grad", operands,
                                   {{"classes", call.attrs.Int("classes")}}),
                              kNoValue};
}

}  // namespace

std::vector<OpDef> LossPartOps() {
  return {
      {.name = "cross_entropy_parts",
       .summary = "of each of `parts` equal parts of each row of logits: the "
                  "logarithm of the sum of e^x, and the logit of the label, "
                  "or 0 where another part has it; f32 of 16-bit logits. Their "
                  "difference, over all parts, is the cross entropy",
       .operands = {{"logits"}, {"labels"}},
       .attrs = {{"parts", AttrKind::kInt, "parts of a row", int64_t{1}},
                 kClasses,
                 {"ignore_index", AttrKind::kInt, "label of rows without one",
                  int64_t{-100}}},
       .infer = InferParts,
       .axes = PartsAxes,
       .work = PartsWork<4>,
       .vjp = PartsVjp,
       .reference = PartsReference,
       .samples = {{"cross_entropy_parts(f32[2,4,8], i64[2,4]) {parts=4}", 0,
                    3},
                   {"cross_entropy_parts(bf16[4,12], i32[4]) {parts=2, "
                    "classes=7, ignore_index=2}",
                    0, 3},
                   {"cross_entropy_parts(f16[4,7], i64[4])", 0, 3}}},
      {.name = "cross_entropy_parts_grad",
       .summary = "gradient of cross_entropy_parts by its log_sums and the "
                  "gradients of its results; rows whose gradients are 0 have "
                  "zeros",
       .operands = {{"logits"},
                    {"labels"},
                    {"log_sums"},
                    {"of_log_sums"},
                    {"of_targets"}},
       .attrs = {kClasses},
       .infer = InferGrad,
       .axes = GradAxes,
       .work = PartsWork<5>,
       .reference = GradReference,
       .samples = {{"cross_entropy_parts_grad(f32[2,4,8], i64[2,4], "
                    "f32[2,4,4], f32[2,4,4], f32[2,4,4])",
                    0, 3},
                   {"cross_entropy_parts_grad(bf16[4,12], i32[4], f32[4,2], "
                    "f32[4,2], f32[4,2]) {classes=7}",
                    0, 3}},
       .in_place = true},
  };
}

}  // namespace asyra::ops
