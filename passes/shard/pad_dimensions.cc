#include "passes/shard/pad_dimensions.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ir/axis_rule.h"
#include "ir/builder.h"
#include "ir/interpreter.h"
#include "ir/printer.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

using DimMask = std::vector<bool>;

bool Any(const DimMask& mask) {
  return std::find(mask.begin(), mask.end(), true) != mask.end();
}

bool Contains(const DimFactors& dim, int factor) {
  return std::find(dim.begin(), dim.end(), factor) != dim.end();
}

// Returns whether the op can say how many rows its indices count, without the
// padding.
bool HasRows(const OpDef& def) { return FindAttr(def, "rows") != nullptr; }

// A dimension of a weight.
using WeightDim = std::pair<ValueId, int>;

// A value on its way into the padded program.
struct Padded {
  // Forms by the dimensions that keep their padding; the first has all of it.
  std::vector<std::pair<DimMask, ValueId>> forms;
  DimMask dims;  // which are padded
  // The value of elements in the padding, if it is one known scalar.
  std::optional<double> fill;
};

// Pads the `candidates` and propagates the padding.
class Padder {
 public:
  Padder(const Program& from, int64_t size, int64_t to, bool trained,
         const std::set<WeightDim>& candidates)
      : from_(from),
        size_(size),
        to_(to),
        trained_(trained),
        candidates_(candidates),
        def_use_(from),
        builder_(Builder::Like(from)),
        map_(from.values.size()) {}

  absl::StatusOr<Program> Run() {
    for (const Input& input : from_.inputs) AddInput(input);
    for (const Op& op : from_.ops) {
      absl::Status status = AddOp(op);
      if (!status.ok()) return Annotate(status, ToString(from_, op));
    }
    for (const Output& output : from_.outputs) {
      DimMask whole(map_[output.value].dims.size(), false);
      ASYRA_ASSIGN_OR_RETURN(ValueId value, Form(output.value, whole));
      builder_.Output(value,
                      output.alias == kNoValue
                          ? kNoValue
                          : map_[output.alias].forms[0].second,
                      from_.output_name(output));
    }
    return std::move(builder_).Finish();
  }

  // The candidates that an op has read with their padding.
  const std::set<WeightDim>& used() const { return used_; }

 private:
  void AddInput(const Input& input) {
    Type type = from_.type(input.value);
    Padded& entry = map_[input.value];
    entry.dims.resize(type.rank());
    for (int d = 0; d < type.rank(); ++d) {
      if (!candidates_.contains({input.value, d})) continue;
      type.dims[d].size = to_;
      entry.dims[d] = true;
      entry.fill = 0;
    }
    Input kept = input;
    if (Any(entry.dims)) kept.stored = from_.GivenShape(input);
    entry.forms = {{entry.dims,
                    builder_.Input(from_.value_name(input.value), type, kept)}};
  }

  // The value with the padding of these dimensions alone.
  absl::StatusOr<ValueId> Form(ValueId value, const DimMask& keep) {
    Padded& entry = map_[value];
    for (const auto& [dims, form] : entry.forms) {
      if (dims == keep) return form;
    }
    ValueId form = entry.forms[0].second;
    for (size_t d = 0; d < keep.size(); ++d) {
      if (!entry.dims[d] || keep[d]) continue;
      ASYRA_ASSIGN_OR_RETURN(form,
                             builder_.AddOne("slice", {form},
                                             {{"dim", static_cast<int64_t>(d)},
                                              {"start", int64_t{0}},
                                              {"stop", size_}},
                                             from_.value_name(value)));
    }
    entry.forms.emplace_back(keep, form);
    return form;
  }

  // Returns whether padding along the factor leaves the rest of the op's
  // results as they are, when the dimensions in `taken` bring it.
  bool PassesThrough(const Op& op, const AxisRule& rule, int factor,
                     const std::vector<DimMask>& taken) const {
    const Factor& f = rule.factors[factor];
    if (f.kind == FactorKind::kWhole || f.size != size_) return false;
    int zeros = 0;
    bool finite = true;
    for (size_t k = 0; k < rule.operands.size(); ++k) {
      const std::optional<double>& fill = map_[op.operands[k]].fill;
      for (size_t d = 0; d < rule.operands[k].size(); ++d) {
        const DimFactors& dim = rule.operands[k][d];
        if (!Contains(dim, factor)) continue;
        if (dim.size() > 1 || !taken[k][d]) return false;
        zeros += fill == 0 ? 1 : 0;
        finite &= fill.has_value() && std::isfinite(*fill);
      }
    }
    for (const OperandFactors& result : rule.results) {
      for (const DimFactors& dim : result) {
        if (dim.size() > 1 && Contains(dim, factor)) return false;
      }
    }
    if (f.kind == FactorKind::kParallel) {
      return !f.positional &&
             (!trained_ || (finite && IsSmooth(op, rule, taken, factor)));
    }
    // A sum of products; a positional one looks up rows by their index.
    return f.positional ? rule.linearity == Linearity::kFirst &&
                              (!op.def->counts_from_end || HasRows(*op.def))
                        : rule.linearity == Linearity::kEach &&
                              zeros >= (trained_ ? 2 : 1) && finite;
  }

  // Returns the dimensions of its operands that the op takes with their
  // padding: those whose factors pass through, given that all that share a
  // factor do.
  std::vector<DimMask> Taken(const Op& op, const AxisRule& rule) const {
    std::vector<DimMask> taken;
    // No attribute may repeat the shape, no draw depend on it.
    bool may = op.def->resize == nullptr && op.def->is_pure;
    for (ValueId value : op.operands) {
      const DimMask& dims = map_[value].dims;
      taken.push_back(may ? dims : DimMask(dims.size(), false));
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t k = 0; k < taken.size(); ++k) {
        for (size_t d = 0; d < taken[k].size(); ++d) {
          if (!taken[k][d]) continue;
          const DimFactors& dim = rule.operands[k][d];
          if (dim.size() == 1 && PassesThrough(op, rule, dim[0], taken)) {
            continue;
          }
          taken[k][d] = false;
          changed = true;
        }
      }
    }
    return taken;
  }

  // Returns whether a positional factor brings padding.
  static bool TakesRows(const AxisRule& rule,
                        const std::vector<DimMask>& taken) {
    for (size_t f = 0; f < rule.factors.size(); ++f) {
      if (rule.factors[f].positional &&
          Brings(rule, taken, static_cast<FactorId>(f))) {
        return true;
      }
    }
    return false;
  }

  absl::Status AddOp(const Op& op) {
    ASYRA_ASSIGN_OR_RETURN(AxisRule rule, RuleOf(op));
    std::vector<DimMask> taken = Taken(op, rule);
    Op copy = op;
    if (HasRows(*op.def) && op.attrs.Int("rows") < 0 &&
        TakesRows(rule, taken)) {
      copy.attrs.Set("rows", size_);
    }
    bool any = false;
    for (size_t k = 0; k < op.operands.size(); ++k) {
      ValueId value = op.operands[k];
      ASYRA_ASSIGN_OR_RETURN(copy.operands[k], Form(value, taken[k]));
      any |= Any(taken[k]);
      for (size_t d = 0; d < taken[k].size(); ++d) {
        WeightDim dim{value, static_cast<int>(d)};
        if (taken[k][d] && candidates_.contains(dim)) used_.insert(dim);
      }
    }
    std::vector<std::string> names;
    for (size_t k = 0; k < op.results.size(); ++k) {
      Padded& entry = map_[op.results[k]];
      entry.dims.resize(from_.type(op.results[k]).rank());
      if (any) MarkResult(op, rule, taken, rule.results[k], &entry);
      // An output keeps its name where it has its shape.
      bool renamed = Any(entry.dims) && def_use_.output_uses[op.results[k]] > 0;
      names.push_back(from_.value_name(op.results[k]) +
                      (renamed ? ".padded" : ""));
    }
    ASYRA_ASSIGN_OR_RETURN(std::vector<ValueId> results,
                           builder_.Insert(std::move(copy), names));
    for (size_t k = 0; k < results.size(); ++k) {
      Padded& entry = map_[op.results[k]];
      entry.forms = {{entry.dims, results[k]}};
    }
    return absl::OkStatus();
  }

  // Empty where no operand is padded: then it does not matter.
  absl::StatusOr<AxisRule> RuleOf(const Op& op) const {
    for (ValueId value : op.operands) {
      if (Any(map_[value].dims)) return AxisRuleOf(OpUse(from_, op));
    }
    return AxisRule();
  }

  void MarkResult(const Op& op, const AxisRule& rule,
                  const std::vector<DimMask>& taken,
                  const OperandFactors& result, Padded* entry) const {
    bool first = true;
    for (size_t d = 0; d < result.size(); ++d) {
      if (result[d].size() != 1 || !Brings(rule, taken, result[d][0])) continue;
      std::optional<double> fill = FillOf(op, rule, taken, result[d][0]);
      entry->dims[d] = true;
      entry->fill = first || entry->fill == fill ? fill : std::nullopt;
      first = false;
    }
  }

  static bool Carries(const AxisRule& rule, const std::vector<DimMask>& taken,
                      size_t operand, FactorId factor) {
    for (size_t d = 0; d < taken[operand].size(); ++d) {
      if (taken[operand][d] && rule.operands[operand][d][0] == factor) {
        return true;
      }
    }
    return false;
  }

  static bool Brings(const AxisRule& rule, const std::vector<DimMask>& taken,
                     FactorId factor) {
    for (size_t k = 0; k < taken.size(); ++k) {
      if (Carries(rule, taken, k, factor)) return true;
    }
    return false;
  }

  // The results where the factor's index is in the padding: the op applied to
  // the fills of all operands, or zero if a product has a zero factor there.
  std::optional<double> FillOf(const Op& op, const AxisRule& rule,
                               const std::vector<DimMask>& taken,
                               FactorId factor) const {
    std::vector<double> fills;
    bool zero = false, known = true;
    for (size_t k = 0; k < op.operands.size(); ++k) {
      if (!Carries(rule, taken, k, factor)) continue;
      const std::optional<double>& fill = map_[op.operands[k]].fill;
      zero |= fill == 0 && IsFactor(rule, k);
      known &= fill.has_value() && std::isfinite(*fill);
      if (fill.has_value()) fills.push_back(*fill);
    }
    bool alone = std::all_of(
        rule.factors.begin(), rule.factors.end(),
        [](const Factor& each) { return each.kind == FactorKind::kParallel; });
    if (alone && fills.size() == op.operands.size()) return At(op, fills);
    return zero && known ? std::optional<double>(0) : std::nullopt;
  }

  // Returns whether the operand is a factor of a product.
  static bool IsFactor(const AxisRule& rule, size_t operand) {
    return rule.linearity == Linearity::kEach ||
           (rule.linearity == Linearity::kFirst && operand == 0);
  }

  // The op of one element each; none if that is not defined.
  std::optional<double> At(const Op& op,
                           const std::vector<double>& fills) const {
    std::vector<Tensor> operands;
    for (size_t k = 0; k < fills.size(); ++k) {
      const Type& type = from_.type(op.operands[k]);
      DType dtype = IsFloat(type.dtype) ? DType::kF64 : type.dtype;
      operands.push_back(
          Tensor::FromDoubles(dtype, Shape(type.rank(), 1), {fills[k]}));
    }
    auto result = Evaluate(*op.def, op.attrs, operands);
    if (!result.ok() || (*result)[0].num_elements() != 1) return std::nullopt;
    return (*result)[0].Get(0);
  }

  // Returns whether the results in the padding are one known scalar, as far as
  // they are of products or change little with small changes of the fills.
  bool IsSmooth(const Op& op, const AxisRule& rule,
                const std::vector<DimMask>& taken, FactorId factor) const {
    constexpr double kStep = 1e-8, kSteepest = 1e3;
    std::optional<double> fill = FillOf(op, rule, taken, factor);
    if (!fill.has_value() || !std::isfinite(*fill)) return false;
    std::vector<double> fills;
    for (size_t k = 0; k < op.operands.size(); ++k) {
      if (!Carries(rule, taken, k, factor)) return true;  // a product
      fills.push_back(*map_[op.operands[k]].fill);
    }
    for (size_t k = 0; k < fills.size(); ++k) {
      for (double step : {kStep, -kStep}) {
        std::vector<double> beside = fills;
        beside[k] += step;
        std::optional<double> value = At(op, beside);
        if (!value.has_value() ||
            !(std::abs(*value - *fill) <= kStep * kSteepest)) {
          return false;
        }
      }
    }
    return true;
  }

  const Program& from_;
  const int64_t size_, to_;
  const bool trained_;
  const std::set<WeightDim>& candidates_;
  DefUse def_use_;
  Builder builder_;
  std::vector<Padded> map_;  // by value of from_
  std::set<WeightDim> used_;
};

}  // namespace

absl::StatusOr<std::optional<Program>> PadDimensions(const Program& program,
                                                     int64_t from, int64_t to,
                                                     bool trained) {
  std::set<WeightDim> candidates;
  for (const Input& input : program.inputs) {
    const Type& type = program.type(input.value);
    for (int d = 0; d < type.rank(); ++d) {
      if (IsWeight(input) && type.size(d) == from) {
        candidates.insert({input.value, d});
      }
    }
  }
  // Padding that no op reads is dropped; others may then lose the second factor
  // of a product.
  while (!candidates.empty()) {
    Padder padder(program, from, to, trained, candidates);
    ASYRA_ASSIGN_OR_RETURN(Program padded, padder.Run());
    if (padder.used() == candidates) return std::optional<Program>(padded);
    candidates = padder.used();
  }
  return std::optional<Program>();
}

}  // namespace asyra
