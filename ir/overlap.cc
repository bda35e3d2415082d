#include "ir/overlap.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

bool IsCollective(const OpDef& def) {
  return def.collective != CollectiveKind::kNone;
}

absl::Status OpStatus(const Body& body, size_t op, const absl::Status& status) {
  return Annotate(
      status, fmt::format("op {} of the body, {}", op, body.ops[op].def->name));
}

absl::Status CheckOp(const Body& body, size_t index, const AxisList& axes) {
  const BodyOp& op = body.ops[index];
  int defined = body.num_operands + static_cast<int>(index);
  for (int value : op.operands) {
    if (value >= 0 && value < defined) continue;
    return Invalid("it reads %{}, before it there are {} values", value,
                   defined);
  }
  if (op.def->is_wait || op.def->is_barrier || BodyOf(op.attrs) != nullptr ||
      (op.operands.empty() && !IsCollective(*op.def))) {
    return Invalid("it cannot be part of an overlap");
  }
  AttrMap complete = op.attrs;
  ASYRA_RETURN_IF_ERROR(CompleteAttrs(*op.def, &complete));
  if (!(complete == op.attrs)) return Invalid("attributes are missing");
  if (!IsCollective(*op.def)) return absl::OkStatus();
  if (op.operands.size() != 1) {
    return Invalid("it has {} operands, a collective of an overlap has one",
                   op.operands.size());
  }
  if (op.attrs.Get<AxisList>("axes") != axes) {
    return Invalid("its axes are not those of the first collective");
  }
  return absl::OkStatus();
}

absl::Status CheckUses(const Body& body) {
  std::vector<bool> used(body.num_values(), false), given = used;
  for (const BodyOp& op : body.ops) {
    for (int value : op.operands) used[value] = true;
  }
  if (body.results.empty()) return Invalid("the body gives no result");
  for (int value : body.results) {
    if (value < body.num_operands || value >= body.num_values()) {
      return Invalid("the body gives %{}, which none of its ops makes", value);
    }
    if (given[value]) return Invalid("the body gives %{} twice", value);
    given[value] = used[value] = true;
  }
  auto unused = absl::c_find(used, false);
  if (unused == used.end()) return absl::OkStatus();
  return Invalid("%{} of the body is read by none of its ops",
                 unused - used.begin());
}

absl::Status CheckBody(const Body& body, size_t operands) {
  if (static_cast<size_t>(body.num_operands) != operands) {
    return Invalid("{} operands given, the body takes {}", operands,
                   body.num_operands);
  }
  size_t collectives = absl::c_count_if(
      body.ops, [](const BodyOp& op) { return IsCollective(*op.def); });
  if (collectives == 0) return Invalid("the body has no collective");
  if (collectives == body.ops.size()) {
    return Invalid("the body has nothing but collectives");
  }
  AxisList axes = AxesOf(body);
  for (size_t i = 0; i < body.ops.size(); ++i) {
    ASYRA_RETURN_IF_ERROR(OpStatus(body, i, CheckOp(body, i, axes)));
  }
  return CheckUses(body);
}

// `axes` of a dimension without those of the group, of which it has all, in
// this order, or none.
absl::StatusOr<bool> TakeGroup(const AxisList& group, AxisList* axes) {
  AxisList others, its;
  for (AxisId axis : *axes) {
    (Contains(group, axis) ? its : others).push_back(axis);
  }
  if (!its.empty() && its != group) {
    return Invalid(
        "is sharded over some of the group's axes, not all in order");
  }
  *axes = std::move(others);
  return !its.empty();
}

absl::StatusOr<Type> GroupType(const Type& type, const AxisList& group,
                               const Mesh& mesh) {
  Type seen = type;
  for (int d = 0; d < seen.rank(); ++d) {
    Dim& dim = seen.dims[d];
    auto cut = TakeGroup(group, &dim.axes);
    if (!cut.ok()) return Annotate(cut.status(), fmt::format("dim {}", d));
    dim.size /= mesh.size(dim.axes);
    dim.axes = *cut ? AxisList{0} : AxisList{};
  }
  AxisList sorted = group;
  std::sort(sorted.begin(), sorted.end());
  if (!seen.partial.empty() && seen.partial != sorted) {
    return Invalid("is partial over other axes than the group's");
  }
  if (!seen.partial.empty()) seen.partial = {0};
  return seen;
}

// Pieces are computed without knowing where they are.
absl::Status CheckPositions(const BodyOp& op, const OpCall& call) {
  if (IsCollective(*op.def) || op.def->is_view) return absl::OkStatus();
  ASYRA_ASSIGN_OR_RETURN(AxisRule rule, AxisRuleOf(call));
  auto check = [&](const OperandFactors& dims, const Type& type) {
    for (size_t d = 0; d < dims.size(); ++d) {
      for (FactorId id : dims[d]) {
        if (!rule.factors[id].positional || type.dims[d].axes.empty()) continue;
        return Invalid("dim {}, whose position it uses, is sharded", d);
      }
    }
    return absl::OkStatus();
  };
  for (size_t k = 0; k < rule.operands.size(); ++k) {
    ASYRA_RETURN_IF_ERROR(check(rule.operands[k], call.operands[k]));
  }
  return check(rule.results[0], call.results[0]);
}

}  // namespace

bool Communicates(const Body& body) {
  return absl::c_any_of(body.ops,
                        [](const BodyOp& op) { return IsCollective(*op.def); });
}

bool IsOverlap(const OpDef& def) { return def.body_communicates; }

AxisList AxesOf(const Body& body) {
  for (const BodyOp& op : body.ops) {
    if (IsCollective(*op.def)) return op.attrs.Get<AxisList>("axes");
  }
  return {};
}

absl::StatusOr<std::vector<Type>> OverlapTypes(const Body& body,
                                               absl::Span<const Type> operands,
                                               const Mesh& mesh) {
  ASYRA_RETURN_IF_ERROR(CheckBody(body, operands.size()));
  for (AxisId axis : AxesOf(body)) {
    if (axis >= 0 && axis < mesh.num_axes()) continue;
    return Invalid("the body has mesh axis {}, there are {}", axis,
                   mesh.num_axes());
  }
  std::vector<Type> types(operands.begin(), operands.end());
  types.reserve(body.num_values());
  for (size_t i = 0; i < body.ops.size(); ++i) {
    BodyCall use(body, i, types);
    auto results = InferTypes(*body.ops[i].def, body.ops[i].attrs,
                              use.call().operands, mesh);
    if (!results.ok()) {
      return Annotate(results.status(), fmt::format("op {} of the body", i));
    }
    if (results->size() != 1) {
      return OpStatus(body, i, Invalid("it has {} results", results->size()));
    }
    types.push_back((*results)[0]);
  }
  return types;
}

absl::StatusOr<std::vector<Type>> OverlapShapes(
    const Body& body, absl::Span<const Type> operands) {
  ASYRA_RETURN_IF_ERROR(CheckBody(body, operands.size()));
  std::vector<Type> types;
  types.reserve(body.num_values());
  for (const Type& type : operands) types.push_back(type.Global());
  for (size_t i = 0; i < body.ops.size(); ++i) {
    BodyCall use(body, i, types);
    auto results = body.ops[i].def->infer(use.call());
    if (!results.ok()) return OpStatus(body, i, results.status());
    if (results->size() != 1) {
      return OpStatus(body, i, Invalid("it has {} results", results->size()));
    }
    types.push_back((*results)[0]);
  }
  return types;
}

absl::StatusOr<GroupBody> GroupBodyOf(const Body& body,
                                      absl::Span<const Type> operands,
                                      const Mesh& mesh) {
  ASYRA_ASSIGN_OR_RETURN(std::vector<Type> types,
                         OverlapTypes(body, operands, mesh));
  AxisList axes = AxesOf(body);
  GroupBody group{static_cast<int>(mesh.size(axes)), body, {}};
  for (size_t v = 0; v < types.size(); ++v) {
    auto type = GroupType(types[v], axes, mesh);
    if (!type.ok()) {
      return Annotate(type.status(), fmt::format("%{} of the body", v));
    }
    group.types.push_back(*type);
  }
  for (size_t i = 0; i < body.ops.size(); ++i) {
    BodyOp& op = group.body.ops[i];
    ASYRA_RETURN_IF_ERROR(
        OpStatus(body, i, CheckPositions(op, BodyCall(body, i, types).call())));
    if (IsCollective(*op.def)) op.attrs.Set("axes", AxisList{0});
    if (op.attrs.Find("axes") != nullptr && op.def->is_view) {
      op.attrs.Set("axes", AxisList{0});  // stack_partial
    }
    if (op.def->resize != nullptr) {
      Type result = group.types[body.num_operands + i].Global();
      op.def->resize(&op.attrs, {&result, 1});
    }
  }
  return group;
}

}  // namespace asyra
