#include "passes/shard/propagate_sharding.h"

#include <algorithm>

#include "absl/types/span.h"
#include "ir/printer.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

// A factor's axes as one value of an op has them.
struct Claim {
  FactorId factor;
  AxisList axes;
  ValueId value;
  bool seeded;
  int64_t bytes;
};

bool IsPrefix(const AxisList& prefix, const AxisList& list) {
  return prefix.size() <= list.size() &&
         std::equal(prefix.begin(), prefix.end(), list.begin());
}

class Propagator {
 public:
  Propagator(const Program& program, const Pins& seeds)
      : program_(program), seeds_(seeds), seeded_(program.values.size()) {
    for (size_t v = 0; v < program.values.size(); ++v) {
      auto value = static_cast<ValueId>(v);
      const Type* seed = PinOf(seeds, value);
      types_.push_back(seed == nullptr ? program.type(value) : *seed);
      seeded_[v] = seed != nullptr;
    }
  }

  absl::StatusOr<Propagation> Run() {
    for (const Op& op : program_.ops) {
      absl::StatusOr<AxisRule> rule = AxisRuleOf(OpUse(program_, op));
      if (!rule.ok()) return Annotate(rule.status(), ToString(program_, op));
      levels_.push_back(LevelOf(op, *rule));
      rules_.push_back(*std::move(rule));
    }
    for (int level = 0; level <= kAll; ++level) ToFixedPoint(level);
    Propagation result;
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      int op = static_cast<int>(i);
      FactorAxes axes = Resolve(op, &result.conflicts);
      Legalize(op, &axes, &result.conflicts);
      result.plan.ops.push_back(
          {std::move(axes),
           std::vector<AxisList>(program_.ops[i].operands.size())});
    }
    for (const Input& input : program_.inputs) {
      result.plan.inputs.push_back(types_[input.value]);
    }
    result.plan.pins = seeds_;
    return result;
  }

 private:
  enum Level { kHandsOn, kMovesData, kAll };

  static bool Uses(const OperandFactors& dims, FactorId factor) {
    for (const DimFactors& dim : dims) {
      if (std::find(dim.begin(), dim.end(), factor) != dim.end()) return true;
    }
    return false;
  }

  static Level LevelOf(const Op& op, const AxisRule& rule) {
    Level level = kHandsOn;
    for (size_t f = 0; f < rule.factors.size(); ++f) {
      if (rule.factors[f].kind != FactorKind::kParallel) return kAll;
      auto uses = [f](const OperandFactors& dims) {
        return Uses(dims, static_cast<FactorId>(f));
      };
      bool everywhere =
          std::all_of(rule.operands.begin(), rule.operands.end(), uses) &&
          std::all_of(rule.results.begin(), rule.results.end(), uses);
      if (!everywhere) level = kMovesData;
    }
    return op.operands.empty() ? kAll : level;
  }

  void ToFixedPoint(int level) {
    bool changed = true;
    int count = static_cast<int>(program_.ops.size());
    auto visit = [&](int i) {
      if (levels_[i] <= level) changed |= Spread(i, Resolve(i, nullptr));
    };
    // Axes are only added, so this ends.
    while (changed) {
      changed = false;
      for (int i = 0; i < count; ++i) visit(i);
      for (int i = count; i-- > 0;) visit(i);
    }
  }

  // The factors' axes by the values of an op.
  std::vector<Claim> ClaimsOf(int i) const {
    const Op& op = program_.ops[i];
    std::vector<Claim> claims;
    auto each = [&](absl::Span<const ValueId> values, const auto& dims) {
      for (size_t k = 0; k < values.size(); ++k) {
        const Type& type = types_[values[k]];
        for (int d = 0; d < type.rank(); ++d) {
          AddClaims(type.dims[d], dims[k][d], rules_[i], values[k], &claims);
        }
      }
    };
    each(op.operands, rules_[i].operands);
    each(op.results, rules_[i].results);
    return claims;
  }

  // The axes of a dimension, outermost first, on its factors as far as they
  // fall on them.
  void AddClaims(const Dim& dim, const DimFactors& factors,
                 const AxisRule& rule, ValueId value,
                 std::vector<Claim>* claims) const {
    size_t next = 0;
    for (FactorId id : factors) {
      Claim claim{id, {}, value, seeded_[value], types_[value].bytes()};
      int64_t left = rule.factors[id].size;
      while (next < dim.axes.size() &&
             left % program_.mesh.size(dim.axes[next]) == 0) {
        left /= program_.mesh.size(dim.axes[next]);
        claim.axes.push_back(dim.axes[next++]);
      }
      if (!claim.axes.empty()) claims->push_back(std::move(claim));
      if (left != 1) return;
    }
  }

  // The stronger claim first.
  bool Beats(const AxisRule& rule, const Claim& a, const Claim& b) const {
    if (a.seeded != b.seeded) return a.seeded;
    bool a_sums = rule.factors[a.factor].kind == FactorKind::kSum;
    bool b_sums = rule.factors[b.factor].kind == FactorKind::kSum;
    if (a_sums != b_sums) return b_sums;
    return a.bytes > b.bytes;
  }

  void Record(int i, std::string text,
              std::vector<ShardingConflict>* conflicts) const {
    if (conflicts == nullptr) return;
    const Op& op = program_.ops[i];
    conflicts->push_back(
        {i, fmt::format("{} (%{}): {}", op.def->name,
                        program_.value_name(op.results[0]), text)});
  }

  std::string ToText(const AxisRule& rule, const Claim& claim) const {
    return fmt::format("factor {} over {} by %{}",
                       rule.factors[claim.factor].name,
                       AxesToString(claim.axes, program_.mesh),
                       program_.value_name(claim.value));
  }

  // The axes of every factor of op i. Claims are taken from the strongest on;
  // each must agree with what was taken before.
  FactorAxes Resolve(int i, std::vector<ShardingConflict>* conflicts) const {
    const AxisRule& rule = rules_[i];
    std::vector<Claim> claims = ClaimsOf(i);
    std::stable_sort(
        claims.begin(), claims.end(),
        [&](const Claim& a, const Claim& b) { return Beats(rule, a, b); });
    FactorAxes taken(rule.factors.size());
    for (const Claim& claim : claims) {
      AxisList& axes = taken[claim.factor];
      FactorKind kind = rule.factors[claim.factor].kind;
      if (kind == FactorKind::kWhole || kind == FactorKind::kAccumulated) {
        Record(i, ToText(rule, claim) + " must be whole", conflicts);
      } else if (!IsPrefix(axes, claim.axes)) {
        if (IsPrefix(claim.axes, axes)) continue;
        Record(i,
               fmt::format("{} gives way to {}", ToText(rule, claim),
                           AxesToString(axes, program_.mesh)),
               conflicts);
      } else {
        Take(i, claim, &taken, conflicts);
      }
    }
    return taken;
  }

  // Extends a factor's axes by a claim, up to an axis that another factor has.
  void Take(int i, const Claim& claim, FactorAxes* taken,
            std::vector<ShardingConflict>* conflicts) const {
    AxisList& axes = (*taken)[claim.factor];
    for (size_t a = axes.size(); a < claim.axes.size(); ++a) {
      for (size_t f = 0; f < taken->size(); ++f) {
        if (!Contains((*taken)[f], claim.axes[a])) continue;
        Record(i,
               fmt::format("{} gives way to factor {}",
                           ToText(rules_[i], claim), rules_[i].factors[f].name),
               conflicts);
        return;
      }
      axes.push_back(claim.axes[a]);
    }
  }

  // Propagates the factors' axes to all values of the op; returns whether one
  // changed.
  bool Spread(int i, const FactorAxes& axes) {
    const Op& op = program_.ops[i];
    bool changed = false;
    auto each = [&](absl::Span<const ValueId> values, const auto& dims) {
      for (size_t k = 0; k < values.size(); ++k) {
        if (seeded_[values[k]]) continue;
        absl::StatusOr<Type> type = ApplyFactorAxes(
            program_.type(values[k]), dims[k], rules_[i], axes, program_.mesh);
        if (type.ok()) changed |= Extend(*type, &types_[values[k]]);
      }
    };
    each(op.operands, rules_[i].operands);
    each(op.results, rules_[i].results);
    return changed;
  }

  // Adds axes where `by` has more than `type`, and they are free there.
  static bool Extend(const Type& by, Type* type) {
    bool changed = false;
    for (int d = 0; d < type->rank(); ++d) {
      const AxisList& more = by.dims[d].axes;
      AxisList& axes = type->dims[d].axes;
      if (more.size() <= axes.size() || !IsPrefix(axes, more)) continue;
      bool free = true;
      for (size_t a = axes.size(); a < more.size(); ++a) {
        for (const Dim& dim : type->dims) free &= !Contains(dim.axes, more[a]);
      }
      if (!free) continue;
      axes = more;
      changed = true;
    }
    return changed;
  }

  // Drops factors' axes, the last first, until the op is legal.
  void Legalize(int i, FactorAxes* axes,
                std::vector<ShardingConflict>* conflicts) const {
    for (size_t f = axes->size(); f-- > 0 && !IsLegal(i, *axes);) {
      if ((*axes)[f].empty()) continue;
      Record(i,
             fmt::format("factor {} cannot be over {} beside the others",
                         rules_[i].factors[f].name,
                         AxesToString((*axes)[f], program_.mesh)),
             conflicts);
      (*axes)[f].clear();
    }
  }

  bool IsLegal(int i, const FactorAxes& axes) const {
    const Op& op = program_.ops[i];
    std::vector<Type> operands;
    for (size_t k = 0; k < op.operands.size(); ++k) {
      absl::StatusOr<Type> type =
          ApplyFactorAxes(program_.type(op.operands[k]), rules_[i].operands[k],
                          rules_[i], axes, program_.mesh);
      if (!type.ok()) return false;
      operands.push_back(*std::move(type));
    }
    return InferTypes(*op.def, op.attrs, operands, program_.mesh).ok();
  }

  const Program& program_;
  const Pins& seeds_;
  std::vector<bool> seeded_;  // by value
  std::vector<Type> types_;   // by value
  std::vector<AxisRule> rules_;
  std::vector<Level> levels_;
};

}  // namespace

absl::StatusOr<Propagation> PropagateSharding(const Program& program,
                                              const Pins& seeds) {
  return Propagator(program, seeds).Run();
}

}  // namespace asyra
