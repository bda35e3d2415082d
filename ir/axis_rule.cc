#include "ir/axis_rule.h"

#include <algorithm>
#include <charconv>

#include "fmt/format.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

// One dimension as written: "k", "!d", "(h g)", "_" or "...".
struct DimSpec {
  DimFactors factors;
  bool ellipsis = false;
};
using OperandSpec = absl::InlinedVector<DimSpec, 4>;

// The factor of the dimension under "..." that has `k` more to its right.
std::string EllipsisName(int k) { return fmt::format("..{}", k); }

class RuleParser {
 public:
  RuleParser(std::string_view spec, absl::Span<const Type> operands,
             absl::Span<const Type> results)
      : spec_(spec), operands_(operands), results_(results) {
    rule_.factors.reserve(8);
  }

  absl::StatusOr<AxisRule> Parse() {
    ASYRA_RETURN_IF_ERROR(ReadSpec());
    if (operand_specs_.size() != operands_.size() ||
        result_specs_.size() != results_.size()) {
      return Error("{} operands and {} results, the op has {} and {}",
                   operand_specs_.size(), result_specs_.size(),
                   operands_.size(), results_.size());
    }
    ASYRA_RETURN_IF_ERROR(Bind(operand_specs_, operands_, &rule_.operands));
    ASYRA_RETURN_IF_ERROR(Bind(result_specs_, results_, &rule_.results));
    ASYRA_RETURN_IF_ERROR(Sizes());
    Kinds();
    return std::move(rule_);
  }

 private:
  template <typename... Args>
  absl::Status Error(fmt::format_string<Args...> text, Args&&... args) {
    return absl::InternalError(
        fmt::format("axis rule \"{}\": {}", spec_,
                    fmt::format(text, std::forward<Args>(args)...)));
  }

  absl::Status ReadSpec() {
    std::vector<OperandSpec>* side = &operand_specs_;
    side->emplace_back();
    DimSpec* open = nullptr;  // inside a parenthesis
    for (size_t i = 0; i < spec_.size();) {
      char c = spec_[i];
      if (c == ' ') {
        ++i;
      } else if (c == ',') {
        side->emplace_back();
        ++i;
      } else if (spec_.substr(i, 2) == "->") {
        side = &result_specs_;
        side->emplace_back();
        i += 2;
      } else if (spec_.substr(i, 3) == "...") {
        side->back().push_back({{}, true});
        i += 3;
      } else if (c == '(') {
        side->back().emplace_back();
        open = &side->back().back();
        ++i;
      } else if (c == ')') {
        open = nullptr;
        ++i;
      } else {
        size_t end = spec_.find_first_of(" ,()-", i);
        if (end == std::string_view::npos) end = spec_.size();
        if (end == i) return Error("unexpected '{}'", c);
        std::string_view word = spec_.substr(i, end - i);
        if (open == nullptr) side->back().emplace_back();
        if (word != "_") side->back().back().factors.push_back(Declare(word));
        if (open != nullptr) open = &side->back().back();
        i = end;
      }
    }
    // "->" alone on the left of an op without operands leaves one empty spec.
    if (operands_.empty() && operand_specs_.size() == 1 &&
        operand_specs_[0].empty()) {
      operand_specs_.clear();
    }
    return absl::OkStatus();
  }

  // Strips the marks of a factor, notes them and its size.
  FactorId Declare(std::string_view word) {
    std::string_view size;
    if (size_t equal = word.find('='); equal != std::string_view::npos) {
      size = word.substr(equal + 1);
      word = word.substr(0, equal);
    }
    bool whole = false, positional = false;
    for (; !word.empty(); word.remove_prefix(1)) {
      if (word[0] == '!') {
        whole = true;
      } else if (word[0] == '@') {
        positional = true;
      } else {
        break;
      }
    }
    FactorId id = FactorNamed(word);
    Factor& factor = rule_.factors[id];
    if (whole) factor.kind = FactorKind::kWhole;
    factor.positional |= positional;
    if (!size.empty()) {
      std::from_chars(size.data(), size.data() + size.size(), factor.size);
    }
    return id;
  }

  FactorId FactorNamed(std::string_view name) {
    for (size_t i = 0; i < rule_.factors.size(); ++i) {
      if (rule_.factors[i].name == name) return static_cast<FactorId>(i);
    }
    rule_.factors.push_back({std::string(name), -1});
    return static_cast<FactorId>(rule_.factors.size() - 1);
  }

  absl::Status Bind(const std::vector<OperandSpec>& specs,
                    absl::Span<const Type> types,
                    std::vector<OperandFactors>* bound) {
    for (size_t i = 0; i < specs.size(); ++i) {
      const OperandSpec& spec = specs[i];
      bool ellipsis = std::any_of(spec.begin(), spec.end(),
                                  [](const DimSpec& d) { return d.ellipsis; });
      int extra = types[i].rank() - static_cast<int>(spec.size()) + ellipsis;
      if (extra < 0 || (!ellipsis && extra != 0)) {
        return Error("side {} has {} dimensions, the type has {}", i,
                     spec.size(), types[i].rank());
      }
      OperandFactors dims;
      for (const DimSpec& dim : spec) {
        if (dim.ellipsis) {
          // Counted from the right, so that operands broadcast.
          for (int k = extra; k-- > 0;) {
            dims.push_back({FactorNamed(EllipsisName(k))});
          }
        } else {
          dims.push_back(dim.factors);
        }
      }
      bound->push_back(std::move(dims));
    }
    return absl::OkStatus();
  }

  bool Broadcasts(FactorId factor) const {
    return rule_.factors[factor].name.starts_with("..");
  }

  // Calls visit(type dimension size, its factors) for every dimension.
  template <typename Visit>
  absl::Status ForEachDim(Visit visit) {
    for (auto [bound, types] : {std::pair(&rule_.operands, operands_),
                                std::pair(&rule_.results, results_)}) {
      for (size_t i = 0; i < bound->size(); ++i) {
        for (size_t d = 0; d < (*bound)[i].size(); ++d) {
          ASYRA_RETURN_IF_ERROR(
              visit(types[i].size(static_cast<int>(d)), (*bound)[i][d]));
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status Sizes() {
    ASYRA_RETURN_IF_ERROR(
        ForEachDim([&](int64_t size, DimFactors& factors) -> absl::Status {
          if (factors.size() != 1) return absl::OkStatus();
          Factor& factor = rule_.factors[factors[0]];
          if (factor.size == -1 || (Broadcasts(factors[0]) && factor.size == 1))
            factor.size = size;
          return absl::OkStatus();
        }));
    // Factors that occur only in parentheses are found by division.
    ASYRA_RETURN_IF_ERROR(
        ForEachDim([&](int64_t size, DimFactors& factors) -> absl::Status {
          if (factors.size() == 1) return absl::OkStatus();
          Factor* unknown = nullptr;
          for (FactorId id : factors) {
            Factor& factor = rule_.factors[id];
            if (factor.size >= 1) {
              if (size % factor.size != 0) {
                return Error("{} does not divide {}", factor.size, size);
              }
              size /= factor.size;
            } else if (factor.size == -1) {
              if (unknown != nullptr) return Error("two unknown sizes");
              unknown = &factor;
            }
          }
          if (unknown != nullptr) unknown->size = size;
          return absl::OkStatus();
        }));
    // Every dimension must now equal the product of its factors.
    return ForEachDim([&](int64_t size, DimFactors& factors) -> absl::Status {
      int64_t product = 1;
      for (FactorId id : factors) product *= rule_.factors[id].size;
      if (product == size) return absl::OkStatus();
      if (size == 1 && factors.size() == 1 && Broadcasts(factors[0])) {
        factors.clear();  // broadcast along this dimension
        return absl::OkStatus();
      }
      return Error("a dimension of size {} has factors of product {}", size,
                   product);
    });
  }

  void Kinds() {
    std::vector<bool> in_result(rule_.factors.size(), false);
    for (const OperandFactors& dims : rule_.results) {
      for (const DimFactors& factors : dims) {
        for (FactorId id : factors) in_result[id] = true;
      }
    }
    for (size_t i = 0; i < rule_.factors.size(); ++i) {
      Factor& factor = rule_.factors[i];
      if (factor.kind == FactorKind::kParallel && !in_result[i]) {
        factor.kind = FactorKind::kSum;
      }
    }
  }

  std::string_view spec_;
  absl::Span<const Type> operands_;
  absl::Span<const Type> results_;
  std::vector<OperandSpec> operand_specs_, result_specs_;
  AxisRule rule_;
};

bool Uses(const OperandFactors& dims, FactorId factor) {
  return std::any_of(dims.begin(), dims.end(), [&](const DimFactors& dim) {
    return std::find(dim.begin(), dim.end(), factor) != dim.end();
  });
}

// Deals a dimension's axes to its factors, outermost first.
bool DealAxes(const Dim& dim, const DimFactors& factors, const AxisRule& rule,
              const Mesh& mesh, FactorAxes* dealt) {
  size_t at = 0;
  int64_t rest = factors.empty() ? 1 : rule.factors[factors[0]].size;
  for (AxisId axis : dim.axes) {
    while (rest == 1 && at + 1 < factors.size()) {
      rest = rule.factors[factors[++at]].size;
    }
    if (factors.empty() || rest % mesh.size(axis) != 0) return false;
    (*dealt)[factors[at]].push_back(axis);
    rest /= mesh.size(axis);
  }
  return true;
}

}  // namespace

FactorId AxisRule::Leading(int operand, int dim) const {
  for (FactorId id : operands[operand][dim]) {
    if (factors[id].size > 1) return id;
  }
  return -1;
}

bool AxisRule::UsedByOperand(FactorId factor, int operand) const {
  return Uses(operands[operand], factor);
}

bool AxisRule::IsSummedIn(FactorId factor, int result) const {
  return factors[factor].kind != FactorKind::kWhole &&
         !Uses(results[result], factor);
}

absl::StatusOr<AxisRule> ParseAxisRule(std::string_view spec,
                                       absl::Span<const Type> operands,
                                       absl::Span<const Type> results,
                                       Linearity linearity) {
  ASYRA_ASSIGN_OR_RETURN(AxisRule rule,
                         RuleParser(spec, operands, results).Parse());
  rule.linearity = linearity;
  return rule;
}

absl::StatusOr<FactorAxes> FactorAxesOf(const AxisRule& rule,
                                        absl::Span<const Type> operands,
                                        const Mesh& mesh) {
  FactorAxes agreed(rule.factors.size());
  std::vector<int> decided_by(rule.factors.size(), -1);
  for (size_t i = 0; i < operands.size(); ++i) {
    FactorAxes dealt(rule.factors.size());
    for (int d = 0; d < operands[i].rank(); ++d) {
      if (!DealAxes(operands[i].dims[d], rule.operands[i][d], rule, mesh,
                    &dealt)) {
        return Invalid(
            "operand {} dim {} of size {} cannot be sharded over {} here", i, d,
            operands[i].size(d), AxesToString(operands[i].dims[d].axes, mesh));
      }
    }
    for (size_t f = 0; f < rule.factors.size(); ++f) {
      FactorId id = static_cast<FactorId>(f);
      if (!rule.UsedByOperand(id, static_cast<int>(i))) continue;
      if (rule.factors[f].kind == FactorKind::kWhole && !dealt[f].empty()) {
        return Invalid("operand {} must be whole along factor {}, not over {}",
                       i, rule.factors[f].name, AxesToString(dealt[f], mesh));
      }
      if (decided_by[f] >= 0 && agreed[f] != dealt[f]) {
        return Invalid(
            "operands {} and {} disagree along factor {}: over {} and {}",
            decided_by[f], i, rule.factors[f].name,
            AxesToString(agreed[f], mesh), AxesToString(dealt[f], mesh));
      }
      decided_by[f] = static_cast<int>(i);
      agreed[f] = dealt[f];
    }
  }
  AxisList seen;
  for (size_t f = 0; f < agreed.size(); ++f) {
    for (AxisId axis : agreed[f]) {
      if (Contains(seen, axis)) {
        return Invalid("axis {} shards two factors, one is {}", mesh.name(axis),
                       rule.factors[f].name);
      }
      seen.push_back(axis);
    }
  }
  return agreed;
}

absl::StatusOr<Type> ApplyFactorAxes(const Type& type,
                                     const OperandFactors& dims,
                                     const AxisRule& rule,
                                     const FactorAxes& factor_axes,
                                     const Mesh& mesh) {
  Type result = type;
  result.partial.clear();
  for (int d = 0; d < type.rank(); ++d) {
    AxisList& axes = result.dims[d].axes;
    axes.clear();
    bool outer_is_full = true;
    for (FactorId id : dims[d]) {
      const Factor& factor = rule.factors[id];
      int64_t parts = mesh.size(factor_axes[id]);
      if (!factor_axes[id].empty() && !outer_is_full) {
        return Invalid(
            "dim {} of size {} cannot be sharded along its inner factor {}", d,
            type.size(d), factor.name);
      }
      if (factor.size % parts != 0) {
        return Invalid("factor {} of size {} does not divide over {} = {}",
                       factor.name, factor.size,
                       AxesToString(factor_axes[id], mesh), parts);
      }
      axes.insert(axes.end(), factor_axes[id].begin(), factor_axes[id].end());
      outer_is_full &= parts == factor.size;
    }
  }
  return result;
}

namespace {

// Checks that what a matmul is added to is partial as the matmul is: over
// `summed`, the axes of a factor of it, and those that it is summed over
// itself.
absl::Status CheckAccumulated(const AxisRule& rule, const FactorAxes& axes,
                              absl::Span<const Type> operands, AxisList summed,
                              const Mesh& mesh) {
  if (rule.accumulates_on < 0) return absl::OkStatus();
  for (size_t f = 0; f < axes.size(); ++f) {
    if (rule.factors[f].kind != FactorKind::kAccumulated) continue;
    summed.insert(summed.end(), axes[f].begin(), axes[f].end());
  }
  std::sort(summed.begin(), summed.end());
  const AxisList& partial = operands[rule.accumulates_on].partial;
  if (partial == summed) return absl::OkStatus();
  auto text = [&](const AxisList& list) {
    return list.empty() ? "none" : AxesToString(list, mesh);
  };
  return Invalid(
      "operand {} is partial over {}, the matmul that is added to it over {}",
      rule.accumulates_on, text(partial), text(summed));
}

}  // namespace

absl::StatusOr<std::vector<Type>> Distribute(const AxisRule& rule,
                                             absl::Span<const Type> operands,
                                             absl::Span<const Type> results,
                                             const Mesh& mesh) {
  ASYRA_ASSIGN_OR_RETURN(FactorAxes axes, FactorAxesOf(rule, operands, mesh));
  AxisList partial;
  int partial_operands = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].partial.empty()) continue;
    if (static_cast<int>(i) == rule.accumulates_on) continue;
    if (rule.linearity == Linearity::kNone ||
        (rule.linearity == Linearity::kJoint && partial_operands > 0 &&
         partial != operands[i].partial) ||
        (rule.linearity == Linearity::kEach && partial_operands > 0) ||
        (rule.linearity == Linearity::kFirst && i > 0)) {
      return Invalid("operand {} must not be partial over {}", i,
                     AxesToString(operands[i].partial, mesh));
    }
    partial = operands[i].partial;
    ++partial_operands;
  }
  if (rule.linearity == Linearity::kJoint && partial_operands > 0 &&
      partial_operands < static_cast<int>(operands.size())) {
    return Invalid("some operands are partial over {} and some are not",
                   AxesToString(partial, mesh));
  }
  ASYRA_RETURN_IF_ERROR(CheckAccumulated(rule, axes, operands, partial, mesh));
  for (size_t f = 0; f < axes.size(); ++f) {
    for (AxisId axis : axes[f]) {
      if (Contains(partial, axis)) {
        return Invalid(
            "axis {} shards factor {} of an operand beside one "
            "that is partial over it",
            mesh.name(axis), rule.factors[f].name);
      }
    }
  }
  std::vector<Type> distributed;
  for (size_t i = 0; i < results.size(); ++i) {
    ASYRA_ASSIGN_OR_RETURN(
        Type type,
        ApplyFactorAxes(results[i], rule.results[i], rule, axes, mesh));
    type.partial = partial;
    for (size_t f = 0; f < axes.size(); ++f) {
      if (!rule.IsSummedIn(static_cast<FactorId>(f), static_cast<int>(i))) {
        continue;
      }
      type.partial.insert(type.partial.end(), axes[f].begin(), axes[f].end());
    }
    std::sort(type.partial.begin(), type.partial.end());
    distributed.push_back(std::move(type));
  }
  return distributed;
}

}  // namespace asyra
