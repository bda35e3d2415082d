#include "passes/axis_choices.h"

#include <algorithm>
#include <limits>

#include "ir/support/check.h"

namespace asyra {

AxisChoices::AxisChoices(const Program& program, const DimLabels& labels,
                         AxisId axis, const PlanOptions& options,
                         const ShardingPlan& plan)
    : program_(program),
      labels_(labels),
      axis_(axis),
      role_(RoleOf(program.mesh.name(axis))),
      size_(program.mesh.size(axis)),
      options_(options),
      plan_(plan),
      is_weight_(program.values.size(), false) {
  for (const Input& input : program.inputs) {
    is_weight_[input.value] = input.role == InputRole::kWeight;
  }
  for (const Op& op : program.ops) {
    bool of_weights = !op.operands.empty();
    for (ValueId value : op.operands) of_weights &= is_weight_[value];
    for (ValueId value : op.results) is_weight_[value] = of_weights;
  }
}

// The factor's axes with this one at its place: home axes first.
AxisList AxisChoices::WithAxis(int op, FactorId factor) const {
  AxisList axes = plan_.ops[op].factors[factor];
  axes.push_back(axis_);
  DimLabel label = labels_.factors[op][factor];
  std::stable_sort(axes.begin(), axes.end(), [&](AxisId a, AxisId b) {
    return IsHome(RoleOf(program_.mesh.name(a)), label) >
           IsHome(RoleOf(program_.mesh.name(b)), label);
  });
  return axes;
}

bool AxisChoices::TouchesWeightMatrix(const Op& op) const {
  return std::any_of(op.operands.begin(), op.operands.end(), [&](ValueId v) {
    return is_weight_[v] && program_.type(v).rank() >= 2;
  });
}

// Ops that contract or index a weight matrix: there an axis must do what it
// was asked for, even where the whole op would cost less. A table that is
// only added is not worth a rule, nor is what has no tokens to divide.
bool AxisChoices::MustDivide(int i) const {
  const Op& op = program_.ops[i];
  const AxisRule& rule = labels_.rules[i];
  bool sums = false, asked_for = false;
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    sums |= rule.factors[f].kind == FactorKind::kSum;
    asked_for |= Divides(i, static_cast<FactorId>(f));
  }
  bool only_weights = !op.results.empty() && is_weight_[op.results[0]];
  return role_ != AxisRole::kFree && sums && asked_for && !only_weights &&
         TouchesWeightMatrix(op);
}

// What it was asked for: to divide the weights, or the tokens.
bool AxisChoices::Divides(int i, FactorId factor) const {
  DimLabel label = labels_.factors[i][factor];
  switch (role_) {
    case AxisRole::kBatch:
      return label == DimLabel::kBatch;
    case AxisRole::kSequence:
      return label == DimLabel::kSequence;
    default:
      return InWeightMatrix(i, factor);
  }
}

bool AxisChoices::InWeightMatrix(int i, FactorId factor) const {
  const Op& op = program_.ops[i];
  for (size_t k = 0; k < op.operands.size(); ++k) {
    if (is_weight_[op.operands[k]] &&
        program_.type(op.operands[k]).rank() >= 2 &&
        labels_.rules[i].UsedByOperand(factor, static_cast<int>(k))) {
      return true;
    }
  }
  return false;
}

bool AxisChoices::RoleAllows(int i, FactorId factor) const {
  DimLabel label = labels_.factors[i][factor];
  switch (role_) {
    case AxisRole::kBatch:
      return label == DimLabel::kBatch;
    case AxisRole::kSequence:
      // A table of positions is cut with the tokens it belongs to.
      return label == DimLabel::kSequence ||
             (label != DimLabel::kBatch && !InWeightMatrix(i, factor));
    case AxisRole::kModel:
      return label != DimLabel::kBatch;
    case AxisRole::kFree:
      return true;
  }
  return true;
}

// Types of operands and results under the plan so far and `axes`; false
// where a dimension cannot be written that way.
bool AxisChoices::TypesUnder(int i, const FactorAxes& axes,
                             std::vector<Type>* operands,
                             std::vector<Type>* results) const {
  const Op& op = program_.ops[i];
  const AxisRule& rule = labels_.rules[i];
  auto apply = [&](const auto& values, const auto& dims,
                   std::vector<Type>* types) {
    for (size_t k = 0; k < values.size(); ++k) {
      absl::StatusOr<Type> type = ApplyFactorAxes(
          program_.type(values[k]), dims[k], rule, axes, program_.mesh);
      if (!type.ok()) return false;
      types->push_back(*std::move(type));
    }
    return true;
  };
  return apply(op.operands, rule.operands, operands) &&
         apply(op.results, rule.results, results);
}

Form AxisChoices::FormOf(const OperandFactors& dims, FactorId factor) const {
  for (size_t d = 0; d < dims.size(); ++d) {
    for (FactorId id : dims[d]) {
      if (id == factor) return ShardedOn(static_cast<int>(d));
    }
  }
  return kWhole;
}

double AxisChoices::OpUs(int i, const std::vector<Type>& operands,
                         const std::vector<Type>& results) const {
  const Op& op = program_.ops[i];
  Work work = WorkOf({*op.def, op.attrs, operands, results}, program_.mesh);
  if (op.def->is_view) return 0;
  double flops_per_us = options_.prices.flops_per_us;
  if (!work.matrix) flops_per_us /= 16;  // vector units
  return options_.prices.kernel_us +
         std::max(work.flops / flops_per_us,
                  (work.read_bytes + work.write_bytes) /
                      options_.prices.memory_bytes_per_us);
}

void AxisChoices::AddChoice(int i, FactorId factor,
                            std::vector<Choice>* choices) const {
  const AxisRule& rule = labels_.rules[i];
  FactorAxes axes = plan_.ops[i].factors;
  if (factor != kUnused) axes[factor] = WithAxis(i, factor);
  std::vector<Type> operands, results;
  if (!TypesUnder(i, axes, &operands, &results)) return;
  Choice choice;
  choice.factor = factor;
  choice.us = OpUs(i, operands, results);
  for (const OperandFactors& dims : rule.operands) {
    choice.operands.push_back(FormOf(dims, factor));
  }
  bool partial =
      factor != kUnused && rule.factors[factor].kind == FactorKind::kSum;
  for (const OperandFactors& dims : rule.results) {
    choice.results.push_back(partial ? kPartial : FormOf(dims, factor));
  }
  choices->push_back(std::move(choice));
}

// A linear op lets a partial operand through.
void AxisChoices::AddPartialChoices(int i, std::vector<Choice>* choices) const {
  const AxisRule& rule = labels_.rules[i];
  size_t count = rule.operands.size();
  if (rule.linearity == Linearity::kNone || count == 0) return;
  ASYRA_CHECK((*choices)[0].factor == kUnused);
  Choice whole = (*choices)[0];
  whole.results.assign(whole.results.size(), kPartial);
  if (rule.linearity == Linearity::kJoint) {
    whole.operands.assign(count, kPartial);
    choices->push_back(whole);
    return;
  }
  size_t may = rule.linearity == Linearity::kFirst ? 1 : count;
  for (size_t k = 0; k < may; ++k) {
    whole.operands.assign(count, kWhole);
    whole.operands[k] = kPartial;
    choices->push_back(whole);
  }
}

std::vector<Choice> AxisChoices::ChoicesOf(int i) const {
  const AxisRule& rule = labels_.rules[i];
  std::vector<Choice> choices;
  bool must_divide = MustDivide(i);
  AddChoice(i, kUnused, &choices);
  ASYRA_CHECK(!choices.empty());
  // A constant is made whole on every device, and cut where it is read.
  if (rule.operands.empty()) return choices;
  if (!must_divide) AddPartialChoices(i, &choices);
  size_t divided = choices.size();
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    FactorId factor = static_cast<FactorId>(f);
    if (rule.factors[f].kind == FactorKind::kWhole ||
        rule.factors[f].size % size_ != 0 || !RoleAllows(i, factor) ||
        (must_divide && !Divides(i, factor))) {
      continue;
    }
    AddChoice(i, factor, &choices);
  }
  if (must_divide && choices.size() > divided) {
    choices.erase(choices.begin(), choices.begin() + divided);
  }
  return choices;
}

// Bytes a device holds of a value that is whole on this axis.
double AxisChoices::WholeBytes(int op, size_t operand) const {
  std::vector<Type> operands, results;
  if (!TypesUnder(op, plan_.ops[op].factors, &operands, &results)) return 0;
  return static_cast<double>(operands[operand].Local(program_.mesh).bytes());
}

// The cheapest way from one of `have` to `need`; infinite when there is none.
double AxisChoices::ConvertUs(Forms have, Form need, double whole_bytes) const {
  const double none = std::numeric_limits<double>::infinity();
  if (have & Bit(need)) return 0;
  if (need == kPartial) return none;
  double n = static_cast<double>(size_);
  PlanPrices::Link link = options_.prices.Over({axis_});
  double moved = whole_bytes * (n - 1) / n / link.bytes_per_us;
  double latency = link.latency_us;
  double best = none;
  if (have & Bit(kWhole)) {
    best = options_.prices.kernel_us;  // shard
  }
  if (have & Bit(kPartial)) {
    best = std::min(best, latency + (need == kWhole ? 2 * moved : moved));
  }
  if (have & static_cast<Forms>(~(Bit(kWhole) | Bit(kPartial)))) {
    best = std::min(best, latency + (need == kWhole ? moved : moved / n));
  }
  return best;
}

}  // namespace asyra
