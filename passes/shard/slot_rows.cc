#include "passes/shard/slot_rows.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "absl/algorithm/container.h"

namespace asyra {
namespace {

bool IsAny(const Op& op, std::initializer_list<std::string_view> names) {
  return absl::c_linear_search(names, op.def->name);
}

bool Ends(const Op& op) { return IsAny(op, {"moe_combine", "moe_collect"}); }

bool StartsWith(const Shape& shape, const Shape& prefix) {
  return shape.size() >= prefix.size() &&
         std::equal(prefix.begin(), prefix.end(), shape.begin());
}

// True for an elementwise op that gives 0 where its operands are 0 that
// `is_zero` names.
template <typename IsZero>
bool GivesZero(const Op& op, IsZero is_zero) {
  if (IsAny(op, {"mul", "swiglu", "geglu"})) {
    return absl::c_any_of(op.operands, is_zero);
  }
  if (IsAny(op, {"div"})) return is_zero(op.operands[0]);
  if (IsAny(op, {"select"})) {
    return is_zero(op.operands[1]) && is_zero(op.operands[2]);
  }
  return IsAny(op, {"add", "sub", "max", "min", "neg", "abs", "cast", "tanh",
                    "silu", "gelu", "gelu_tanh", "quick_gelu", "relu", "mish",
                    "hard_swish", "erf", "sin"}) &&
         absl::c_all_of(op.operands, is_zero);
}

}  // namespace

// Sizes by which an op routes.
struct SlotRows::Routing {
  ValueId root;
  int64_t chosen, num_experts, group_tokens, capacity;
  int64_t choices;  // of one leading index
  Shape lead;
};

// The choices as they were made, of which those at hand are another shape. A
// token makes each at most once.
ValueId SlotRows::RootOf(ValueId experts) const {
  for (;;) {
    int def = def_use_.def[experts];
    if (def < 0) return kNoValue;
    const Op& op = program_.ops[def];
    if (IsAny(op, {"reshape", "cast"})) {
      experts = op.operands[0];
      continue;
    }
    bool distinct =
        (op.def->name == "moe_router" && op.results[1] == experts) ||
        (op.def->name == "top_k" && op.results[1] == experts &&
         NormalizeDim(op.attrs.Int("dim"), program_.type(experts).rank()) ==
             program_.type(experts).rank() - 1);
    return distinct ? experts : kNoValue;
  }
}

bool SlotRows::ReadRouting(const Op& op, Routing* routing) const {
  bool dispatch = op.def->name == "moe_dispatch";
  const Type& choices = program_.type(op.operands[1]);
  const Type& rows = program_.type(dispatch ? op.results[0] : op.operands[0]);
  routing->root = RootOf(op.operands[1]);
  if (routing->root == kNoValue || choices.num_elements() == 0) return false;
  int64_t k = choices.dims.back().size, tokens = choices.dims.end()[-2].size;
  int64_t group = op.attrs.Int("group_size");
  routing->chosen = program_.type(routing->root).dims.back().size;
  routing->choices = tokens * k;
  routing->num_experts = rows.dims.end()[-3].size;
  routing->capacity = rows.dims.end()[-2].size / (tokens / group);
  routing->lead = choices.shape();
  routing->lead.resize(choices.rank() - 2);
  routing->group_tokens = group * k / routing->chosen;
  // An axis of one device cuts no group in two.
  const AxisList& axes = choices.dims.end()[-2].axes;
  bool cut = axes.empty() || program_.mesh.size(axes) > 1;
  // Whole tokens share slots, of which there is one for each, and no expert is
  // on another device.
  return cut && group * k % routing->chosen == 0 &&
         routing->capacity >= routing->group_tokens &&
         rows.dims.end()[-3].axes.empty();
}

bool SlotRows::Fits(const Routing& routing) const {
  auto found = families_.find(routing.root);
  if (found == families_.end()) return false;
  const SlotFamily& family = found->second;
  return family.chosen == routing.chosen &&
         family.num_experts == routing.num_experts &&
         family.group_tokens == routing.group_tokens &&
         family.group_tokens == routing.capacity &&
         family.tokens * family.chosen == routing.choices &&
         family.lead == routing.lead;
}

SlotRows::SlotRows(const Program& program)
    : program_(program),
      def_use_(program),
      of_(program.values.size(), kNoValue),
      zero_(program.values.size(), false) {
  for (const Op& op : program.ops) Visit(op);
  for (const Output& output : program.outputs) {
    if (of_[output.value] != kNoValue) Spoil(of_[output.value]);
  }
}

int64_t SlotRows::families() const {
  return absl::c_count_if(families_, [&](const auto& family) {
    return !spoilt_.contains(family.first);
  });
}

ValueId SlotRows::FamilyOf(ValueId value) const {
  ValueId root = of_[value];
  return root == kNoValue || spoilt_.contains(root) ? kNoValue : root;
}

ValueId SlotRows::FamilyOfRouting(const Op& op) const {
  if (op.def->name == "moe_dispatch") return FamilyOf(op.results[0]);
  return Ends(op) ? FamilyOf(op.operands[0]) : kNoValue;
}

Shape SlotRows::Prefix(ValueId root) const {
  const SlotFamily& family = families_.at(root);
  Shape shape = family.lead;
  shape.push_back(family.num_experts);
  shape.push_back(family.tokens);
  return shape;
}

void SlotRows::Enter(ValueId value, ValueId root, bool zero) {
  of_[value] = root;
  zero_[value] = zero;
}

void SlotRows::VisitDispatch(const Op& op) {
  Routing routing;
  if (!ReadRouting(op, &routing)) {
    if (ValueId root = RootOf(op.operands[1]); root != kNoValue) Spoil(root);
    return;
  }
  families_.try_emplace(
      routing.root,
      SlotFamily{routing.chosen, routing.choices / routing.chosen,
                 routing.num_experts, routing.group_tokens, routing.lead});
  if (Fits(routing)) {
    Enter(op.results[0], routing.root, true);
  } else {
    Spoil(routing.root);
  }
}

void SlotRows::VisitEnd(const Op& op) {
  Routing routing;
  ValueId root = of_[op.operands[0]];
  bool fits = ReadRouting(op, &routing) && routing.root == root;
  if (root != kNoValue && !(fits && Fits(routing))) Spoil(root);
}

void SlotRows::Visit(const Op& op) {
  if (op.def->name == "moe_dispatch") {
    for (ValueId operand : op.operands) {
      if (of_[operand] != kNoValue) Spoil(of_[operand]);
    }
    return VisitDispatch(op);
  }
  ValueId root = kNoValue;
  for (ValueId operand : op.operands) {
    if (of_[operand] != kNoValue) root = of_[operand];
  }
  if (root == kNoValue) return;
  for (ValueId operand : op.operands) {
    if (of_[operand] != kNoValue && of_[operand] != root) Spoil(of_[operand]);
  }
  if (Ends(op)) {
    if (!Has(op.operands[0], root)) Spoil(root);
    return VisitEnd(op);
  }
  if (op.results.size() != 1 || !Takes(op, root)) Spoil(root);
}

bool SlotRows::Takes(const Op& op, ValueId root) {
  const SlotFamily& family = families_.at(root);
  int slots = SlotDim(family);
  ValueId result = op.results[0];
  if (op.def->name == "grouped_matmul") {
    if (!Has(op.operands[0], root) || Has(op.operands[1], root)) return false;
    if (program_.type(op.operands[0]).rank() != slots + 2) return false;
    Enter(result, root, zero_[op.operands[0]]);
    return true;
  }
  if (op.def->name == "matmul_wgrad") {
    return Has(op.operands[0], root) && Has(op.operands[1], root) &&
           program_.type(op.operands[0]).rank() == slots + 2 &&
           op.attrs.Int("keep") == slots &&
           (zero_[op.operands[0]] || zero_[op.operands[1]]);
  }
  if (op.def->name == "reduce_sum") {
    const Ints& dims = op.attrs.Get<Ints>("dims");
    int rank = program_.type(op.operands[0]).rank();
    return zero_[op.operands[0]] && rank == slots + 2 && dims.size() == 1 &&
           NormalizeDim(dims[0], rank) == slots;
  }
  if (IsAny(op, {"reshape", "slice"})) return TakesWithinRows(op, root);
  return TakesElements(op, root);
}

bool SlotRows::TakesWithinRows(const Op& op, ValueId root) {
  Shape prefix = Prefix(root);
  const Type& from = program_.type(op.operands[0]);
  const Type& to = program_.type(op.results[0]);
  bool within = StartsWith(to.shape(), prefix);
  if (op.def->name == "slice") {
    within &= NormalizeDim(op.attrs.Int("dim"), from.rank()) >=
              static_cast<int>(prefix.size());
  }
  if (within) Enter(op.results[0], root, zero_[op.operands[0]]);
  return within;
}

// Other operands are for all rows, or for all rows of an expert.
bool SlotRows::TakesElements(const Op& op, ValueId root) {
  if (op.def->fusable != Fusable::kElement || op.def->name == "broadcast") {
    return false;
  }
  const Type& result = program_.type(op.results[0]);
  int slots = SlotDim(families_.at(root));
  if (!StartsWith(result.shape(), Prefix(root))) return false;
  for (ValueId value : op.operands) {
    const Type& type = program_.type(value);
    if (Has(value, root)) {
      if (type.rank() != result.rank()) return false;
      continue;
    }
    int at = slots - (result.rank() - type.rank());  // of slots
    for (int d = 0; d <= at && d < type.rank(); ++d) {
      if (d != at - 1 && type.size(d) != 1) return false;
    }
    // Columns of its experts' rows are one dimension.
    if (at > 0 && type.size(at - 1) != 1 && result.rank() != slots + 2) {
      return false;
    }
  }
  Enter(op.results[0], root, GivesZero(op, [&](ValueId value) {
          return Has(value, root) && zero_[value];
        }));
  return true;
}

}  // namespace asyra
