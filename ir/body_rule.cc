#include <algorithm>
#include <map>
#include <numeric>

#include "ir/accumulation.h"
#include "ir/body.h"
#include "ir/overlap.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

// Factors of all ops of a body, those that are one joined in a union-find.
class Composer {
 public:
  Composer(const Body& body, absl::Span<const Type> types)
      : body_(body),
        types_(types),
        splits_(Communicates(body)),
        bound_(types.size()) {}

  // `results` are values of the body.
  absl::StatusOr<AxisRule> Compose(absl::Span<const int> results) {
    for (size_t i = 0; i < body_.ops.size(); ++i) {
      ASYRA_RETURN_IF_ERROR(AddOp(i));
    }
    for (size_t v = 0; v < bound_.size(); ++v) {
      ASYRA_RETURN_IF_ERROR(CheckDistinct(v));
    }
    return Rule(results);
  }

 private:
  // The factors of a dimension, as numbers of factors_.
  using Dim = absl::InlinedVector<int, 2>;
  using Dims = std::vector<Dim>;

  absl::Status AddOp(size_t index) {
    const BodyOp& op = body_.ops[index];
    BodyCall use(body_, index, types_);
    ASYRA_ASSIGN_OR_RETURN(AxisRule rule, AxisRuleOf(use.call()));
    if (index == 0) linearity_ = rule.linearity;
    joint_ &= rule.linearity == Linearity::kJoint;
    int first = static_cast<int>(factors_.size());
    for (const Factor& factor : rule.factors) {
      root_.push_back(static_cast<int>(factors_.size()));
      factors_.push_back(factor);
    }
    for (size_t k = 0; k < op.operands.size(); ++k) {
      ASYRA_RETURN_IF_ERROR(Bind(op.operands[k], rule.operands[k], first));
    }
    return Bind(body_.num_operands + static_cast<int>(index), rule.results[0],
                first);
  }

  // Enters the binding of a value's dimensions by an op, whose factors begin at
  // `first`.
  absl::Status Bind(int value, const OperandFactors& dims, int first) {
    Dims& bound = bound_[value];
    bound.resize(dims.size());
    for (size_t d = 0; d < dims.size(); ++d) {
      Dim mine;
      for (FactorId id : dims[d]) mine.push_back(first + id);
      if (bound[d].empty()) {
        bound[d] = std::move(mine);
      } else if (!mine.empty() && !Join(Resolved(bound[d]), Resolved(mine))) {
        return Invalid(
            "dim {} of %{} of the body is bound to factors of sizes {} by one "
            "op and {} by another",
            d, value, Sizes(bound[d]), Sizes(mine));
      }
    }
    return absl::OkStatus();
  }

  bool Join(const Dim& a, const Dim& b) {
    if (Sizes(a) != Sizes(b)) return Split(a, b) || Split(b, a);
    for (size_t i = 0; i < a.size(); ++i) root_[Root(b[i])] = Root(a[i]);
    return true;
  }

  // One factor that another op sees as several.
  bool Split(const Dim& one, const Dim& several) {
    if (!splits_ || one.size() != 1 || several.size() < 2) return false;
    int64_t product = 1;
    for (int f : several) product *= factors_[f].size;
    if (product != factors_[one[0]].size) return false;
    split_[Root(one[0])] = several;
    return true;
  }

  // With the factors into which its own were split.
  Dim Resolved(const Dim& dim) {
    Dim resolved;
    for (int f : dim) {
      auto at = split_.find(Root(f));
      if (at == split_.end()) {
        resolved.push_back(f);
      } else {
        for (int part : Resolved(at->second)) resolved.push_back(part);
      }
    }
    return resolved;
  }

  std::string Sizes(const Dim& dim) const {
    std::string text;
    for (int f : dim) {
      text += fmt::format("{}{}", text.empty() ? "" : " x ", factors_[f].size);
    }
    return text;
  }

  int Root(int factor) {
    while (root_[factor] != factor) {
      factor = root_[factor] = root_[root_[factor]];
    }
    return factor;
  }

  absl::Status CheckDistinct(size_t value) {
    std::vector<int> seen;
    for (size_t d = 0; d < bound_[value].size(); ++d) {
      for (int f : Resolved(bound_[value][d])) {
        int root = Root(f);
        if (factors_[root].size == 1) continue;
        if (std::find(seen.begin(), seen.end(), root) != seen.end()) {
          return Invalid(
              "dim {} of %{} of the body is bound to the factor of another of "
              "its dimensions",
              d, value);
        }
        seen.push_back(root);
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<AxisRule> Rule(absl::Span<const int> results) {
    AxisRule rule;
    rule.accumulates_on = AccumulatesOn(body_, types_);
    rule.linearity = joint_                     ? Linearity::kJoint
                     : rule.accumulates_on >= 0 ? linearity_
                                                : Linearity::kNone;
    for (int v = 0; v < body_.num_operands; ++v) {
      ASYRA_ASSIGN_OR_RETURN(OperandFactors dims, DimsOf(v, &rule));
      rule.operands.push_back(std::move(dims));
    }
    for (int v : results) {
      ASYRA_ASSIGN_OR_RETURN(OperandFactors dims, DimsOf(v, &rule));
      rule.results.push_back(std::move(dims));
    }
    std::vector<bool> given = GivenByAll();
    for (size_t f = 0; f < factors_.size(); ++f) {
      for (int part : Resolved({static_cast<int>(f)})) {
        int root = Root(part);
        if (new_id_[root] < 0) continue;
        Factor& factor = rule.factors[new_id_[root]];
        // A reduction that other ops read needs all summands, unless they only
        // add to it, and a result without the factor is no sum over its parts.
        if (factors_[f].kind == FactorKind::kSum && rule.accumulates_on >= 0) {
          factor.kind = FactorKind::kAccumulated;
        } else if (factors_[f].kind != FactorKind::kParallel || !given[root]) {
          factor.kind = FactorKind::kWhole;
        }
        factor.positional |= factors_[f].positional;
      }
    }
    return rule;
  }

  // By root: whether every result of the body has the factor.
  std::vector<bool> GivenByAll() {
    std::vector<bool> given(factors_.size(), true);
    for (int v : body_.results) {
      std::vector<bool> has(factors_.size(), false);
      for (const Dim& dim : bound_[v]) {
        for (int f : Resolved(dim)) has[Root(f)] = true;
      }
      for (size_t f = 0; f < has.size(); ++f) given[f] = given[f] && has[f];
    }
    return given;
  }

  // The dimensions of a value in factors of `rule`, to which it adds new ones.
  absl::StatusOr<OperandFactors> DimsOf(int value, AxisRule* rule) {
    new_id_.resize(factors_.size(), -1);
    OperandFactors dims;
    for (const Dim& dim : bound_[value]) {
      dims.emplace_back();
      for (int f : Resolved(dim)) {
        int root = Root(f);
        if (new_id_[root] < 0) {
          if (rule->factors.size() > INT8_MAX) {
            return Invalid("the body has more than {} factors", INT8_MAX);
          }
          new_id_[root] = static_cast<int>(rule->factors.size());
          rule->factors.push_back(
              {fmt::format("f{}", new_id_[root]), factors_[root].size});
        }
        dims.back().push_back(static_cast<FactorId>(new_id_[root]));
      }
    }
    return dims;
  }

  const Body& body_;
  absl::Span<const Type> types_;
  // True if ops may see one dimension as more or fewer factors.
  const bool splits_;
  std::vector<Dims> bound_;  // by value
  std::vector<Factor> factors_;
  std::vector<int> root_;     // by factor
  std::map<int, Dim> split_;  // by root: the factors that it is made of
  std::vector<int> new_id_;   // by root: in the rule, or -1
  bool joint_ = true;
  Linearity linearity_ = Linearity::kNone;  // of the first op
};

}  // namespace

absl::StatusOr<AxisRule> BodyAxisRule(const Body& body,
                                      absl::Span<const Type> types) {
  return Composer(body, types).Compose(body.results);
}

absl::StatusOr<AxisRule> BodyValuesRule(const Body& body,
                                        absl::Span<const Type> types) {
  std::vector<int> all(body.num_values());
  std::iota(all.begin(), all.end(), 0);
  return Composer(body, types).Compose(all);
}

}  // namespace asyra
