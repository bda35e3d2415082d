#include "passes/shard/axis_use.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "ir/printer.h"
#include "ir/support/status.h"
#include "ir/support/units.h"

namespace asyra {
namespace {

constexpr size_t kMostDims = 8;  // that an error lists

std::string PurposeOf(AxisRole role) {
  switch (role) {
    case AxisRole::kBatch:
      return "the batch";
    case AxisRole::kSequence:
      return "the tokens";
    case AxisRole::kModel:
      return "weights";
    case AxisRole::kExpert:
      return "experts";
    case AxisRole::kFree:
      return "anything";
  }
  return "";
}

std::string LabelName(DimLabel label) {
  switch (label) {
    case DimLabel::kBatch:
      return "batch";
    case DimLabel::kSequence:
      return "tokens";
    case DimLabel::kNone:
      return "neither batch nor tokens";
  }
  return "";
}

// Returns the reason why the axis cannot shard a dimension of an input.
std::string WhyNot(const AxisRoles& roles, AxisId axis, int64_t size,
                   DimLabel label, int64_t devices) {
  AxisRole role = roles.role(axis);
  bool data = role == AxisRole::kBatch || role == AxisRole::kSequence;
  if (data && !roles.IsOwn(label, axis)) return LabelName(label);
  if (size % devices != 0) return fmt::format("{} does not divide it", devices);
  return "no op can be computed in parts of it";
}

// The dimensions of all inputs that the axis might have sharded: of data for
// data axes, of weights for others, of both for axes of any name.
std::string DimsConsidered(const Program& program, const AxisRoles& roles,
                           AxisId axis) {
  AxisRole role = roles.role(axis);
  bool data = role == AxisRole::kBatch || role == AxisRole::kSequence;
  std::vector<std::string> dims;
  for (const Input& input : program.inputs) {
    bool weight = IsWeight(input);
    if (role != AxisRole::kFree && weight == data) continue;
    const Type& type = program.type(input.value);
    for (int d = 0; d < type.rank(); ++d) {
      const std::string& name = program.value_name(input.value);
      dims.push_back(fmt::format("{} of %{} has size {} ({})",
                                 DimText(roles.labels().names, name, d), name,
                                 type.size(d),
                                 WhyNot(roles, axis, type.size(d),
                                        roles.labels().values[input.value][d],
                                        program.mesh.size(axis))));
    }
  }
  if (dims.empty()) {
    return data ? "; there are no data inputs" : "; there are no weights";
  }
  size_t more = dims.size() - std::min(dims.size(), kMostDims);
  dims.resize(dims.size() - more);
  return fmt::format("; {}{}", absl::StrJoin(dims, ", "),
                     more == 0 ? "" : fmt::format(" and {} more", more));
}

// The first op that the axis should divide, and its sizes.
std::string FirstUndivided(const Program& program, const AxisRoles& roles,
                           AxisId axis) {
  for (size_t i = 0; i < program.ops.size(); ++i) {
    int op = static_cast<int>(i);
    const AxisRule& rule = roles.labels().rules[i];
    for (size_t f = 0; f < rule.factors.size(); ++f) {
      if (!roles.Divides(op, static_cast<FactorId>(f), axis)) continue;
      return fmt::format("; the first op it should divide is {}",
                         ToString(program, program.ops[i]));
    }
  }
  if (roles.role(axis) == AxisRole::kExpert && !roles.has_experts()) {
    return "; no op multiplies by a batch of weight matrices";
  }
  return "";
}

// Experts of the first op that has any, and whether the plan shards experts
// over the axis.
struct Experts {
  int64_t count = 0;
  std::string weights;  // that hold them
  bool sharded = false;
};

Experts ExpertsOver(const Program& program, const AxisRoles& roles,
                    const CostedPlan& plan, AxisId axis) {
  Experts found;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    int op = static_cast<int>(i);
    const std::vector<Factor>& factors = roles.labels().rules[i].factors;
    for (size_t f = 0; f < factors.size(); ++f) {
      if (!roles.IsExpert(op, static_cast<FactorId>(f))) continue;
      found.sharded |= Contains(plan.ops[i].factors[f], axis);
      if (found.count > 0) continue;
      found.count = factors[f].size;
      for (ValueId value : program.ops[i].operands) {
        if (roles.is_weight(value)) found.weights = program.value_name(value);
      }
    }
  }
  return found;
}

}  // namespace

AxisList UnusedAxes(const Mesh& mesh, const CostedPlan& plan) {
  AxisList unused;
  for (int a = 0; a < mesh.num_axes(); ++a) {
    auto axis = static_cast<AxisId>(a);
    if (mesh.size(axis) > 1 && !plan.Uses(axis)) unused.push_back(axis);
  }
  return unused;
}

absl::Status CheckEveryAxisIsUsed(const Program& program,
                                  const AxisRoles& roles,
                                  const CostedPlan& plan) {
  for (AxisId axis : UnusedAxes(program.mesh, plan)) {
    return Invalid("axis {} of size {} shards nothing: it is for {}{}{}",
                   program.mesh.name(axis), program.mesh.size(axis),
                   PurposeOf(roles.role(axis)),
                   DimsConsidered(program, roles, axis),
                   FirstUndivided(program, roles, axis));
  }
  return absl::OkStatus();
}

absl::Status CheckExperts(const Program& program, const AxisRoles& roles,
                          const CostedPlan& plan, const Pins& pins,
                          PassContext& context) {
  AxisList asked;
  for (int a = 0; a < program.mesh.num_axes(); ++a) {
    auto axis = static_cast<AxisId>(a);
    if (program.mesh.size(axis) > 1 && roles.ShardsExperts(axis)) {
      asked.push_back(axis);
    }
  }
  bool pinned = std::any_of(
      pins.begin(), pins.end(),
      [](const std::optional<Type>& pin) { return pin.has_value(); });
  for (AxisId axis : asked) {
    if (!roles.has_experts()) {
      return Invalid(
          "axis {} of size {} shards no experts: the model has none, no op "
          "multiplies by a batch of weight matrices",
          program.mesh.name(axis), program.mesh.size(axis));
    }
    Experts experts = ExpertsOver(program, roles, plan, axis);
    if (experts.sharded) continue;
    std::string what = fmt::format(
        "axis {} of size {} shards no experts: there are {} of them (%{}) for "
        "{} devices over {}",
        program.mesh.name(axis), program.mesh.size(axis), experts.count,
        experts.weights, program.mesh.size(asked),
        AxesToString(asked, program.mesh));
    if (!pinned) return Invalid("{}", what);
    context.Remark("{}", what);
  }
  return absl::OkStatus();
}

void RemarkCostOfUse(const Program& program, const CostedPlan& without,
                     const CostedPlan& plan, PassContext& context) {
  AxisList axes = UnusedAxes(program.mesh, without);
  if (plan.ns <= without.ns || axes.empty()) return;
  context.Remark(
      "{} {} {} more than {}: ops and collectives take {}, and {} without",
      axes.size() == 1 ? "axis" : "axes", AxesToString(axes, program.mesh),
      axes.size() == 1 ? "costs" : "cost",
      axes.size() == 1 ? "it saves" : "they save",
      TimeText(static_cast<double>(plan.ns) / 1000),
      TimeText(static_cast<double>(without.ns) / 1000));
}

}  // namespace asyra
