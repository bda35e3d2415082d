#include "passes/shard/pad_dims.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "ir/builder.h"
#include "ir/interpreter.h"
#include "ir/printer.h"
#include "ir/support/round_up.h"
#include "ir/support/status.h"
#include "ir/support/units.h"
#include "passes/shard/axis_roles.h"
#include "passes/shard/padded_sizes.h"
#include "passes/shard/partition.h"
#include "simulator/cost/cost_model.h"

namespace asyra {
namespace {

using DimMask = std::vector<bool>;

bool Any(const DimMask& mask) {
  return std::find(mask.begin(), mask.end(), true) != mask.end();
}

bool Contains(const DimFactors& dim, int factor) {
  return std::find(dim.begin(), dim.end(), factor) != dim.end();
}

// Whether the op can say how many rows its indices count, without the padding.
bool HasRows(const OpDef& def) { return FindAttr(def, "rows") != nullptr; }

// A dimension of a weight.
using WeightDim = std::pair<ValueId, int>;

// A value on its way into the padded program.
struct Padded {
  // By the dimensions that keep their padding; the first has all of it.
  std::vector<std::pair<DimMask, ValueId>> forms;
  DimMask dims;  // which are padded
  // The value of elements in the padding, if it is one known number.
  std::optional<double> fill;
};

// Pads the `candidates` and propagates the padding.
class Padder {
 public:
  Padder(const Program& from, int64_t size, int64_t to,
         const std::set<WeightDim>& candidates)
      : from_(from),
        size_(size),
        to_(to),
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
    Shape stored = input.stored;
    if (Any(entry.dims)) stored = from_.GivenShape(input);
    entry.forms = {{entry.dims, builder_.Input(from_.value_name(input.value),
                                               type, input.role, stored)}};
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

  // Whether padding along the factor leaves the rest of the op's results as
  // they are, when the dimensions in `taken` bring it.
  bool PassesThrough(const Op& op, const AxisRule& rule, int factor,
                     const std::vector<DimMask>& taken) const {
    const Factor& f = rule.factors[factor];
    if (f.kind == FactorKind::kWhole || f.size != size_) return false;
    bool zero = false, finite = true;
    for (size_t k = 0; k < rule.operands.size(); ++k) {
      const std::optional<double>& fill = map_[op.operands[k]].fill;
      for (size_t d = 0; d < rule.operands[k].size(); ++d) {
        const DimFactors& dim = rule.operands[k][d];
        if (!Contains(dim, factor)) continue;
        if (dim.size() > 1 || !taken[k][d]) return false;
        zero |= fill == 0;
        finite &= fill.has_value() && std::isfinite(*fill);
      }
    }
    for (const OperandFactors& result : rule.results) {
      for (const DimFactors& dim : result) {
        if (dim.size() > 1 && Contains(dim, factor)) return false;
      }
    }
    if (f.kind == FactorKind::kParallel) return !f.positional;
    // A sum of products; a positional one looks up rows by their index.
    return f.positional ? rule.linearity == Linearity::kFirst &&
                              (!op.def->counts_from_end || HasRows(*op.def))
                        : rule.linearity == Linearity::kEach && zero && finite;
  }

  // Which dimensions of its operands the op takes with their padding: those
  // whose factors pass through, given that all that share a factor do.
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

  // Whether a positional factor brings padding.
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

  // The results where the factor's index is in the padding: zero if a product
  // has a zero factor, else the op applied to the fills of all operands.
  std::optional<double> FillOf(const Op& op, const AxisRule& rule,
                               const std::vector<DimMask>& taken,
                               FactorId factor) const {
    std::vector<Tensor> fills;
    for (size_t k = 0; k < op.operands.size(); ++k) {
      const std::optional<double>& fill = map_[op.operands[k]].fill;
      if (!Carries(rule, taken, k, factor) || !fill.has_value()) continue;
      bool product = rule.linearity == Linearity::kEach ||
                     (rule.linearity == Linearity::kFirst && k == 0);
      if (*fill == 0 && product) return 0;
      const Type& type = from_.type(op.operands[k]);
      fills.push_back(
          Tensor::FromDoubles(type.dtype, Shape(type.rank(), 1), {*fill}));
    }
    for (const Factor& each : rule.factors) {
      if (each.kind != FactorKind::kParallel) return std::nullopt;
    }
    if (fills.size() != op.operands.size()) return std::nullopt;
    auto result = Evaluate(*op.def, op.attrs, fills);
    if (!result.ok() || (*result)[0].num_elements() != 1) return std::nullopt;
    return (*result)[0].Get(0);
  }

  const Program& from_;
  const int64_t size_, to_;
  const std::set<WeightDim>& candidates_;
  DefUse def_use_;
  Builder builder_;
  std::vector<Padded> map_;  // by value of from_
  std::set<WeightDim> used_;
};

// The devices over which weights may be sharded.
int64_t ModelDevices(const Mesh& mesh) {
  int64_t devices = 1;
  for (const Mesh::Axis& axis : mesh.axes()) {
    AxisRole role = RoleOf(axis.name);
    if (role == AxisRole::kModel || role == AxisRole::kFree) {
      devices *= axis.size;
    }
  }
  return devices;
}

// 16-bit matmuls read rows fast that begin at multiples of 16 bytes. A
// hundredth is little to pay for that.
constexpr int64_t kAligned = 8, kManyTimes = 100;

// Sizes of weights that `devices` do not divide, or whose parts have rows of an
// odd number of 16-bit elements (Work::odd_rows), and what they become.
std::map<int64_t, int64_t> SizesToPad(const Program& program, int64_t devices) {
  std::map<int64_t, int64_t> sizes;
  for (const Input& input : program.inputs) {
    if (!IsWeight(input)) continue;
    const Type& type = program.type(input.value);
    for (const Dim& dim : type.dims) {
      int64_t part = RoundUp(dim.size, devices) / devices;
      bool aligns = SizeOf(type.dtype) == 2 && type.rank() > 1 &&
                    dim.size >= kManyTimes * kAligned * devices;
      if (dim.size <= devices ||
          (dim.size % devices == 0 && !(aligns && part % 2 == 1))) {
        continue;
      }
      int64_t to = RoundUp(dim.size, aligns ? kAligned * devices : devices);
      sizes[dim.size] = std::max(sizes[dim.size], to);
    }
  }
  return sizes;
}

// The time of a step as planned, ops one after the other.
absl::StatusOr<double> PlannedUs(const Program& program,
                                 const PadOptions& options,
                                 const CostModel& costs) {
  PlanOptions plan_options = options.plan;
  ASYRA_ASSIGN_OR_RETURN(plan_options.pins, ReadPins(options.pins, program));
  PassContext context;  // its remarks come when the plan is made
  context.costs = &costs;
  ASYRA_ASSIGN_OR_RETURN(ShardingPlan plan,
                         PlanSharding(program, plan_options, context));
  ASYRA_ASSIGN_OR_RETURN(Program local,
                         Partition(program, plan, plan_options.costs));
  double us = 0;
  for (const OpCost& cost : EstimateCosts(local, costs)) us += cost.time_us;
  return us;
}

// The weights of `program` that have a dimension of that size.
std::string WeightNames(const Program& program, int64_t size) {
  std::string names;
  int count = 0;
  for (const Input& input : program.inputs) {
    if (input.stored.empty()) continue;
    for (int64_t stored : input.stored) {
      if (stored != size) continue;
      if (count++ == 0) names = "%" + program.value_name(input.value);
      break;
    }
  }
  return count > 1 ? fmt::format("{} and {} more", names, count - 1) : names;
}

// Whether to pad; says so.
absl::StatusOr<bool> Pays(const Program& whole, const Program& padded,
                          int64_t size, const PadOptions& options,
                          PassContext& context) {
  int64_t devices = ModelDevices(whole.mesh);
  std::string what =
      fmt::format("{} elements of {}", size, WeightNames(padded, size));
  if (devices > 1) what += fmt::format(" over {} devices", devices);
  if (options.always) {
    context.Remark("{} are padded", what);
    return true;
  }
  if (context.costs == nullptr) {
    return Invalid("needs costs: there are none in PassContext::costs");
  }
  // If neither can be planned, plan_sharding reports the error.
  auto whole_us = PlannedUs(whole, options, *context.costs);
  auto padded_us = PlannedUs(padded, options, *context.costs);
  if (!padded_us.ok()) return false;
  bool pays = !whole_us.ok() || *padded_us < *whole_us;
  context.Remark(
      "{} are {}padded: by a sum over ops and collectives {} "
      "with padding, {} without",
      what, pays ? "" : "not ", TimeText(*padded_us),
      whole_us.ok() ? TimeText(*whole_us) : "impossible");
  return pays;
}

}  // namespace

absl::StatusOr<std::optional<Program>> PadDimensions(const Program& program,
                                                     int64_t from, int64_t to) {
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
    Padder padder(program, from, to, candidates);
    ASYRA_ASSIGN_OR_RETURN(Program padded, padder.Run());
    if (padder.used() == candidates) return std::optional<Program>(padded);
    candidates = padder.used();
  }
  return std::optional<Program>();
}

absl::StatusOr<bool> PadDims(Program& program, const PadOptions& options,
                             PassContext& context) {
  if (!options.sizes.empty()) return PadSizes(program, options.sizes);
  int64_t devices = ModelDevices(program.mesh);
  bool changed = false;
  for (auto [size, to] : SizesToPad(program, devices)) {
    ASYRA_ASSIGN_OR_RETURN(std::optional<Program> padded,
                           PadDimensions(program, size, to));
    if (!padded.has_value()) continue;
    ASYRA_ASSIGN_OR_RETURN(bool pays,
                           Pays(program, *padded, size, options, context));
    if (!pays) continue;
    program = *std::move(padded);
    changed = true;
  }
  return changed;
}

}  // namespace asyra
