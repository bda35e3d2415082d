#include "passes/analysis/op_shape.h"

#include "absl/container/flat_hash_map.h"
#include "ir/parser.h"
#include "ir/support/check.h"

namespace asyra {
namespace {

enum class Kind { kOther, kElementwise, kRowwise };

bool NamesDimensions(const OpDef& def) {
  for (const AttrDef& attr : def.attrs) {
    if (attr.kind == AttrKind::kInt || attr.kind == AttrKind::kInts ||
        attr.kind == AttrKind::kTensor || attr.kind == AttrKind::kAxes) {
      return true;
    }
  }
  return false;
}

// Returns whether each operand is bound, right aligned, to the result's
// factors.
bool Aligned(const AxisRule& rule) {
  const OperandFactors& result = rule.results[0];
  for (const OperandFactors& operand : rule.operands) {
    if (operand.size() > result.size()) return false;
    for (size_t i = 0; i < operand.size(); ++i) {
      const DimFactors& dim = operand[operand.size() - 1 - i];
      if (!dim.empty() && dim != result[result.size() - 1 - i]) return false;
    }
  }
  return true;
}

Kind KindOfRule(const AxisRule& rule) {
  if (rule.results.size() != 1 || !Aligned(rule)) return Kind::kOther;
  const OperandFactors& result = rule.results[0];
  if (result.empty()) return Kind::kOther;
  Kind kind = Kind::kElementwise;
  for (size_t i = 0; i < rule.factors.size(); ++i) {
    const Factor& factor = rule.factors[i];
    if (factor.positional || factor.kind == FactorKind::kSum ||
        factor.kind == FactorKind::kAccumulated) {
      return Kind::kOther;
    }
    if (factor.kind != FactorKind::kWhole) continue;
    DimFactors last = {static_cast<FactorId>(i)};
    if (result.back() != last) return Kind::kOther;
    kind = Kind::kRowwise;
  }
  if (kind == Kind::kRowwise) {
    for (size_t i = 1; i < rule.operands.size(); ++i) {
      if (rule.operands[i].size() != 1) return Kind::kOther;
    }
  }
  return kind;
}

Kind KindOfUse(const OpDef& def, const AttrMap& attrs,
               absl::Span<const Type> operands) {
  auto results = InferTypes(def, attrs, operands, Mesh());
  if (!results.ok()) return Kind::kOther;
  auto rule = AxisRuleOf({def, attrs, operands, *results});
  return rule.ok() ? KindOfRule(*rule) : Kind::kOther;
}

// The first sample stands for all uses: which factors an op binds does not
// depend on sizes unless attributes name dimensions.
Kind FindKind(const OpDef& def) {
  if (NamesDimensions(def) || def.axes == nullptr || def.samples.empty() ||
      def.is_view || def.collective != CollectiveKind::kNone || !def.is_pure ||
      def.operands.empty()) {
    return Kind::kOther;
  }
  absl::StatusOr<ParsedCall> call = ParseCall(def.samples[0].text, Mesh());
  if (!call.ok()) return Kind::kOther;
  // Operands that the sample broadcasts would hide their binding.
  std::vector<Type> equal = call->operands;
  for (Type& type : equal) type.dims = call->operands[0].dims;
  Kind kind = KindOfUse(def, call->attrs, equal);
  return kind == Kind::kElementwise
             ? kind
             : KindOfUse(def, call->attrs, call->operands);
}

Kind KindOf(const OpDef& def) {
  static const auto* kinds = [] {
    auto* map = new absl::flat_hash_map<const OpDef*, Kind>;
    for (const OpDef* def : AllOps()) map->emplace(def, FindKind(*def));
    return map;
  }();
  auto found = kinds->find(&def);
  return found == kinds->end() ? Kind::kOther : found->second;
}

}  // namespace

bool IsElementwise(const OpDef& def) {
  return KindOf(def) == Kind::kElementwise;
}

bool IsRowwise(const OpDef& def) { return KindOf(def) == Kind::kRowwise; }

bool IsAlongLast(const Op& op, const Type& operand) {
  return NormalizeDim(op.attrs.Int("dim"), operand.rank()) ==
         operand.rank() - 1;
}

std::vector<int> MergeGroups(const Shape& from, const Shape& to) {
  if (to.empty() || to.size() >= from.size()) return {};
  std::vector<int> begins;
  size_t at = 0;
  for (size_t i = 0; i < to.size(); ++i) {
    begins.push_back(static_cast<int>(at));
    if (at == from.size()) return {};
    // The fewest dimensions that give the size, so that later ones stay single.
    int64_t product = from[at++];
    while (at < from.size() && product < to[i]) product *= from[at++];
    if (product != to[i]) return {};
  }
  // The remaining dimensions have size 1 and join the last group.
  for (; at < from.size(); ++at) {
    if (from[at] != 1) return {};
  }
  begins.push_back(static_cast<int>(from.size()));
  return begins;
}

}  // namespace asyra
