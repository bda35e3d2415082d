#include "passes/shard/sharding_choices.h"

#include <algorithm>
#include <cmath>

#include "ir/printer.h"
#include "ir/support/check.h"

namespace asyra {
namespace {

void Append(const AxisList& axes, std::string* key) {
  for (AxisId axis : axes) key->push_back(static_cast<char>(axis));
  key->push_back('\xff');
}

AxisList Without(const AxisList& axes, const AxisList& less) {
  AxisList rest;
  for (AxisId axis : axes) {
    if (!Contains(less, axis)) rest.push_back(axis);
  }
  return rest;
}

}  // namespace

ShardingChoices::ShardingChoices(
    const Program& program, const AxisRoles& roles, const PlanOptions& options,
    const std::vector<absl::InlinedVector<TypeId, 4>>& fixed,
    RedistributionCosts& types)
    : program_(program),
      roles_(roles),
      options_(options),
      fixed_(fixed),
      types_(types) {
  for (size_t i = 0; i < program.ops.size(); ++i) {
    classes_.push_back(ClassOf(static_cast<int>(i)));
  }
}

// Everything that the choices of an op and the pins on its values depend on.
int ShardingChoices::ClassOf(int i) {
  const Op& op = program_.ops[i];
  std::string key(op.def->name);
  auto append_values = [&](const auto& values) {
    for (ValueId value : values) {
      const Type* pin = PinOf(options_.pins, value);
      key += fmt::format(",{}{}.{}", types_.Id(program_.type(value)),
                         roles_.is_weight(value) ? "w" : "",
                         pin == nullptr ? -1 : types_.Id(*pin));
      for (TypeId form : fixed_[value]) key += fmt::format("f{}", form);
    }
    key.push_back(';');
  };
  append_values(op.operands);
  append_values(op.results);
  for (DimLabel label : roles_.labels().factors[i]) {
    key.push_back(static_cast<char>(label));
  }
  // The data of a constant changes nothing, and may be long.
  if (!op.operands.empty()) {
    for (const auto& [name, value] : op.attrs) {
      key += fmt::format("{}={};", name, ToString(value, program_.mesh));
    }
  }
  return class_ids_.emplace(std::move(key), static_cast<int>(class_ids_.size()))
      .first->second;
}

std::vector<ShardingChoices::Use> ShardingChoices::UsesOf(int i,
                                                          AxisId axis) const {
  const AxisRule& rule = roles_.labels().rules[i];
  std::vector<Use> uses = {{}};
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    const Factor& factor = rule.factors[f];
    if (factor.kind != FactorKind::kWhole &&
        factor.kind != FactorKind::kAccumulated &&
        factor.size % program_.mesh.size(axis) == 0 &&
        roles_.Allows(i, static_cast<FactorId>(f), axis)) {
      uses.push_back({Use::kShards, static_cast<int>(f)});
    }
  }
  int count = static_cast<int>(rule.operands.size());
  switch (rule.linearity) {
    case Linearity::kNone:
      break;
    case Linearity::kJoint:
      uses.push_back({Use::kPartial, -1});
      break;
    case Linearity::kFirst:
      count = std::min(count, 1);
      [[fallthrough]];
    case Linearity::kEach:
      for (int k = 0; k < count; ++k) uses.push_back({Use::kPartial, k});
      break;
  }
  return uses;
}

// Fills in types and cost; false if the op cannot be computed with this choice.
bool ShardingChoices::Complete(int i, Choice* choice) {
  const Op& op = program_.ops[i];
  const AxisRule& rule = roles_.labels().rules[i];
  std::vector<Type> operands;
  for (size_t k = 0; k < op.operands.size(); ++k) {
    absl::StatusOr<Type> type =
        ApplyFactorAxes(program_.type(op.operands[k]), rule.operands[k], rule,
                        choice->sharding.factors, program_.mesh);
    if (!type.ok()) return false;
    type->partial = choice->sharding.partial[k];
    choice->operands.push_back(types_.Id(*type));
    operands.push_back(*std::move(type));
  }
  absl::StatusOr<std::vector<Type>> results =
      InferTypes(*op.def, op.attrs, operands, program_.mesh);
  if (!results.ok()) return false;
  for (const Type& type : *results) {
    choice->results.push_back(types_.Id(type));
  }
  double us = options_.costs.OpUs({*op.def, op.attrs, operands, *results},
                                  program_.mesh);
  choice->ns = std::llround(us * 1000);
  // The gradients of a matmul are two more; those of other ops read and write
  // about as much.
  if (options_.with_gradients) choice->ns *= 3;
  return true;
}

void ShardingChoices::Add(int i, const AxisList& open,
                          const std::vector<Use>& uses, OpSharding sharding,
                          Choices* choices, std::vector<int>* asked) {
  int done = 0;
  for (size_t a = 0; a < open.size(); ++a) {
    const Use& use = uses[a];
    if (use.kind == Use::kShards) {
      auto factor = static_cast<FactorId>(use.index);
      sharding.factors[factor].push_back(open[a]);
      done += roles_.Divides(i, factor, open[a]) ||
              roles_.Insists(i, factor, open[a]);
    } else if (use.kind == Use::kPartial) {
      for (size_t k = 0; k < sharding.partial.size(); ++k) {
        if (use.index >= 0 && k != static_cast<size_t>(use.index)) continue;
        sharding.partial[k].push_back(open[a]);
      }
    }
  }
  for (AxisList& partial : sharding.partial) {
    std::sort(partial.begin(), partial.end());
  }
  const std::vector<DimLabel>& labels = roles_.labels().factors[i];
  bool two_orders = false;
  for (size_t f = 0; f < labels.size(); ++f) {
    two_orders |= roles_.HasTwoOrders(sharding.factors[f], labels[f]);
  }
  for (bool experts_outside : {true, false}) {
    if (!experts_outside && !two_orders) break;
    Choice choice{sharding, {}, {}, 0};
    for (size_t f = 0; f < labels.size(); ++f) {
      AxisList& axes = choice.sharding.factors[f];
      axes = roles_.Ordered(axes, labels[f], experts_outside);
    }
    if (AddNew(i, std::move(choice), choices)) asked->push_back(done);
  }
}

// Completes the choice; false if that is not possible or the choice is known.
bool ShardingChoices::AddNew(int i, Choice choice, Choices* choices) {
  if (!Complete(i, &choice)) return false;
  for (const Choice& other : *choices) {
    if (other.operands == choice.operands && other.results == choice.results) {
      return false;
    }
  }
  choices->push_back(std::move(choice));
  return true;
}

Choices ShardingChoices::Enumerate(int i, const AxisList& open,
                                   const OpSharding& base) {
  Choices choices;
  std::vector<int> asked;
  std::vector<std::vector<Use>> options;
  // A constant is made whole on every device, and cut where it is read.
  for (AxisId axis : open) {
    options.push_back(program_.ops[i].operands.empty() ? std::vector<Use>(1)
                                                       : UsesOf(i, axis));
  }
  std::vector<size_t> at(open.size(), 0);
  for (size_t axis = 0; axis <= open.size();) {
    std::vector<Use> uses;
    for (size_t a = 0; a < open.size(); ++a) uses.push_back(options[a][at[a]]);
    Add(i, open, uses, base, &choices, &asked);
    for (axis = 0; axis < open.size(); ++axis) {
      if (++at[axis] < options[axis].size()) break;
      at[axis] = 0;
    }
    if (axis == open.size()) break;
  }
  ASYRA_CHECK(!choices.empty());
  int most = *std::max_element(asked.begin(), asked.end());
  Choices best;
  for (size_t c = 0; c < choices.size(); ++c) {
    if (asked[c] == most) best.push_back(std::move(choices[c]));
  }
  return best;
}

std::shared_ptr<const Choices> ShardingChoices::Of(int i, const AxisList& open,
                                                   const OpSharding& planned) {
  OpSharding base = planned;
  std::string key = fmt::format("{}:", classes_[i]);
  Append(open, &key);
  for (AxisList& axes : base.factors) Append(axes = Without(axes, open), &key);
  for (AxisList& axes : base.partial) Append(axes = Without(axes, open), &key);
  auto [at, fresh] = known_.emplace(std::move(key), nullptr);
  if (fresh) {
    at->second = std::make_shared<const Choices>(Enumerate(i, open, base));
  }
  return at->second;
}

}  // namespace asyra
