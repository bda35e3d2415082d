#include "passes/shard/sharding_remarks.h"

#include <map>
#include <optional>
#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/str_join.h"
#include "ir/printer.h"

namespace asyra {
namespace {

class Remarker {
 public:
  Remarker(const Program& program, const AxisRoles& roles,
           const CostedPlan& plan)
      : program_(program), roles_(roles), plan_(plan) {}

  // Returns the reason why `axis` does not divide op i; empty if it does, or
  // need not.
  std::optional<std::string> Of(int i, AxisId axis) const {
    const Op& op = program_.ops[i];
    if (op.operands.empty() || roles_.is_weight(op.results[0])) return {};
    bool must = roles_.MustDivide(i, axis);
    if (!must && !roles_.IsMatmulOfData(i)) return {};
    std::vector<std::string> sizes = Indivisible(i, axis);
    if (sizes.empty()) return {};
    std::string why = absl::StrJoin(sizes, ", ");
    if (!plan_.ops[i].Shards(axis)) {
      return fmt::format("does not divide {} (%{}): {}", op.def->name,
                         program_.value_name(op.results[0]), why);
    }
    std::string gathered = GatheredOperands(i, axis);
    if (must || gathered.empty()) return {};
    return fmt::format("does not divide {} (%{}) but along the tokens: {}; {}",
                       op.def->name, program_.value_name(op.results[0]), why,
                       gathered);
  }

 private:
  // The factors that the axis would divide if their size allowed it.
  std::vector<std::string> Indivisible(int i, AxisId axis) const {
    const AxisRule& rule = roles_.labels().rules[i];
    int64_t size = program_.mesh.size(axis);
    bool must = roles_.MustDivide(i, axis);
    std::vector<std::string> found;
    for (size_t f = 0; f < rule.factors.size(); ++f) {
      auto factor = static_cast<FactorId>(f);
      int64_t extent = rule.factors[f].size;
      AxisList others = plan_.ops[i].factors[f];
      if (Contains(others, axis)) continue;
      int64_t taken = program_.mesh.size(others);
      bool wanted = must ? roles_.Divides(i, factor, axis)
                         : roles_.labels().factors[i][f] == DimLabel::kNone &&
                               rule.factors[f].kind == FactorKind::kParallel;
      if (!wanted || extent == 1 || extent % (taken * size) == 0) continue;
      std::string text =
          fmt::format("{} of size {}{}, which {} of size {} does not divide",
                      Place(i, factor), extent,
                      taken == 1 ? "" : fmt::format(" over {} devices", taken),
                      program_.mesh.name(axis), size);
      // Parts of one dimension may say the same.
      if (!absl::c_linear_search(found, text)) found.push_back(std::move(text));
    }
    return found;
  }

  // "dim 1 of %q".
  std::string Place(int i, FactorId factor) const {
    const AxisRule& rule = roles_.labels().rules[i];
    const Op& op = program_.ops[i];
    for (size_t k = 0; k < rule.operands.size(); ++k) {
      for (size_t d = 0; d < rule.operands[k].size(); ++d) {
        for (FactorId id : rule.operands[k][d]) {
          if (id != factor) continue;
          return fmt::format("{}dim {} of %{}",
                             rule.operands[k][d].size() > 1 ? "a part of " : "",
                             d, program_.value_name(op.operands[k]));
        }
      }
    }
    return rule.factors[factor].name;
  }

  // Operands that every device of the axis reads whole, although the axis
  // shards the op along the tokens.
  std::string GatheredOperands(int i, AxisId axis) const {
    const AxisRule& rule = roles_.labels().rules[i];
    std::vector<std::string> names;
    for (size_t k = 0; k < rule.operands.size(); ++k) {
      bool sharded = false, tokens = false;
      for (const DimFactors& dim : rule.operands[k]) {
        for (FactorId id : dim) {
          sharded |= Contains(plan_.ops[i].factors[id], axis);
          tokens |= roles_.labels().factors[i][id] == DimLabel::kSequence;
        }
      }
      if (sharded || !tokens) continue;
      names.push_back("%" + program_.value_name(program_.ops[i].operands[k]));
    }
    if (names.empty()) return "";
    return fmt::format("{} {} gathered", absl::StrJoin(names, " and "),
                       names.size() == 1 ? "is" : "are");
  }

  const Program& program_;
  const AxisRoles& roles_;
  const CostedPlan& plan_;
};

}  // namespace

void RemarkUndivided(const Program& program, const AxisRoles& roles,
                     const CostedPlan& plan, PassContext& context) {
  Remarker remarker(program, roles, plan);
  for (int a = 0; a < program.mesh.num_axes(); ++a) {
    auto axis = static_cast<AxisId>(a);
    if (program.mesh.size(axis) == 1) continue;
    // By op and sizes: the first remark, and how many there are.
    std::map<std::string, std::pair<size_t, int>> groups;
    std::vector<std::string> remarks;
    for (size_t i = 0; i < program.ops.size(); ++i) {
      const Op& op = program.ops[i];
      auto remark = remarker.Of(static_cast<int>(i), axis);
      if (!remark.has_value()) continue;
      std::string key(op.def->name);
      for (ValueId v : op.operands) key += ToString(program.type(v), Mesh());
      auto [at, fresh] = groups.emplace(key, std::pair(remarks.size(), 0));
      if (fresh) remarks.push_back(*std::move(remark));
      ++at->second.second;
    }
    for (const auto& [key, at] : groups) {
      context.Remark(
          "axis {} of size {} {}{}", program.mesh.name(axis),
          program.mesh.size(axis), remarks[at.first],
          at.second == 1 ? "" : fmt::format(" (and {} more)", at.second - 1));
    }
  }
}

}  // namespace asyra
