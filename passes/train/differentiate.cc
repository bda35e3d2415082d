#include "passes/train/differentiate.h"

#include <algorithm>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "ir/builder.h"
#include "ir/support/short_list.h"
#include "ir/support/status.h"
#include "passes/train/attach_loss.h"
#include "passes/train/parameters.h"
#include "passes/train/tie_weights.h"

namespace asyra {
namespace {

bool Is16Bit(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16;
}

DType Widened(DType dtype) { return Is16Bit(dtype) ? DType::kF32 : dtype; }

// What gives elements of its operands again: a gradient goes through it as it
// is.
bool IsRearrangement(const OpDef& def) {
  constexpr std::string_view kNames[] = {"reshape",   "transpose", "cast",
                                         "broadcast", "slice",     "concat"};
  return std::find(std::begin(kNames), std::end(kNames), def.name) !=
         std::end(kNames);
}

// Whose derivative is computed in f32 where the op is 16-bit: a kernel reads
// and writes 16 bits either way.
bool IsComputedWide(const OpDef& def) {
  if (IsRearrangement(def)) return false;
  constexpr std::string_view kOthers[] = {
      "embedding",  "cross_entropy", "softmax",       "log_softmax",
      "reduce_sum", "reduce_mean",   "reduce_log_sum_exp"};
  return def.fusable == Fusable::kElement || def.fusable == Fusable::kRow ||
         std::find(std::begin(kOthers), std::end(kOthers), def.name) !=
             std::end(kOthers);
}

// A forward program with its gradients appended.
class Differentiator {
 public:
  Differentiator(const Program& program,
                 const std::vector<Parameter>& parameters)
      : from_(program), builder_(Builder::Like(program)) {
    for (const Parameter& parameter : parameters) {
      is_parameter_.insert(parameter.value);
    }
  }

  absl::Status Run() {
    ASYRA_RETURN_IF_ERROR(CopyForward());
    ASYRA_ASSIGN_OR_RETURN(ValueId loss, Loss());
    ASYRA_ASSIGN_OR_RETURN(ValueId seed, Seed(loss));
    gradients_[loss] = seed;
    size_t forward = builder_.program().ops.size();
    for (size_t i = forward; i-- > 0;) {
      if (i >= first_copied_) ASYRA_RETURN_IF_ERROR(Back(i));
    }
    return FinishCasts();
  }

  // Of `from`: the parameters that got no gradient.
  std::vector<ValueId> WithoutGradient() const {
    std::vector<ValueId> without;
    for (const Input& input : from_.inputs) {
      if (is_parameter_.contains(input.value) &&
          !gradients_.contains(param_of_.at(input.value))) {
        without.push_back(input.value);
      }
    }
    return without;
  }

  Program Finish() && {
    for (const Output& output : from_.outputs) {
      builder_.Output(map_[output.value], kNoValue,
                      from_.output_name(output));
    }
    std::vector<std::pair<ValueId, std::string>> names;
    for (const Input& input : from_.inputs) {
      if (!is_parameter_.contains(input.value)) continue;
      ValueId gradient = gradients_.at(param_of_.at(input.value));
      std::string name = GradientName(from_.value_name(input.value));
      builder_.Output(gradient, kNoValue, name);
      names.emplace_back(gradient, std::move(name));
    }
    for (const Op& op : from_.ops) {
      auto found = gradients_.find(map_[op.results[0]]);
      if (found == gradients_.end()) continue;
      names.emplace_back(found->second,
                         GradientName(from_.value_name(op.results[0])));
    }
    size_t forward_values = forward_values_;
    Program program = std::move(builder_).Finish();
    Rename(names, forward_values, &program);
    DropDeadOps(&program);
    return program;
  }

 private:
  absl::Status CopyForward() {
    map_.assign(from_.values.size(), kNoValue);
    for (const Input& input : from_.inputs) {
      const std::string& name = from_.value_name(input.value);
      Type type = from_.type(input.value);
      bool param = is_parameter_.contains(input.value);
      if (param) type.dtype = Widened(type.dtype);
      ValueId value = builder_.Input(
          name, type, param ? InputRole::kParam : input.role, input.stored);
      map_[input.value] = value;
      if (param) param_of_[input.value] = value;
    }
    for (const Input& input : from_.inputs) {
      DType to = from_.type(input.value).dtype;
      ValueId& value = map_[input.value];
      if (builder_.type(value).dtype == to) continue;
      ASYRA_ASSIGN_OR_RETURN(
          value, builder_.AddOne("cast", {value}, {{"to", to}},
                                 fmt::format("{}.{}",
                                             from_.value_name(input.value),
                                             ToString(to))));
    }
    first_copied_ = builder_.program().ops.size();
    for (const Op& op : from_.ops) {
      ASYRA_RETURN_IF_ERROR(builder_.Copy(from_, op, &map_));
    }
    forward_values_ = builder_.program().values.size();
    FindDependents();
    return absl::OkStatus();
  }

  // What depends on a parameter, and what is nothing but one.
  void FindDependents() {
    const Program& program = builder_.program();
    depends_.assign(program.values.size(), false);
    of_parameter_.assign(program.values.size(), false);
    for (auto [old, value] : param_of_) {
      depends_[value] = of_parameter_[value] = true;
    }
    for (const Op& op : program.ops) {
      bool any = false, all = !op.operands.empty();
      for (ValueId operand : op.operands) {
        any |= depends_[operand];
        all &= of_parameter_[operand];
      }
      for (ValueId result : op.results) {
        depends_[result] = any && IsFloat(program.type(result).dtype);
        of_parameter_[result] = all && IsRearrangement(*op.def);
      }
    }
  }

  absl::StatusOr<ValueId> Loss() const {
    for (const Output& output : from_.outputs) {
      if (from_.output_name(output) != kLossSum) continue;
      ValueId loss = map_[output.value];
      if (depends_[loss]) return loss;
      return Invalid("the loss %{} depends on no parameter",
                     from_.value_name(output.value));
    }
    return Invalid("there is no output {}, which attach_loss leaves", kLossSum);
  }

  // 1, or what gradients in f16 are scaled by.
  absl::StatusOr<ValueId> Seed(ValueId loss) {
    DType dtype = builder_.type(loss).dtype;
    bool f16 = false;
    for (size_t v = 0; v < forward_values_; ++v) {
      f16 |= depends_[v] && builder_.type(v).dtype == DType::kF16;
    }
    if (f16) {
      return Cast(builder_.Input(kLossScale, Type(DType::kF32, {})), dtype);
    }
    return builder_.Constant(Tensor::FromDoubles(dtype, {}, {1}), "one");
  }

  absl::Status Back(size_t index) {
    const Op op = builder_.program().ops[index];  // ops move as some are added
    std::vector<ValueId> gradients;
    bool any = false;
    for (ValueId result : op.results) {
      auto found = gradients_.find(result);
      gradients.push_back(found == gradients_.end() ? kNoValue : found->second);
      any |= gradients.back() != kNoValue;
    }
    auto wanted = [&](ValueId operand) { return depends_[operand]; };
    if (!any || std::none_of(op.operands.begin(), op.operands.end(), wanted)) {
      return absl::OkStatus();
    }
    if (op.def->vjp == nullptr) return NoDerivative(op);
    ASYRA_ASSIGN_OR_RETURN(gradients, GradientsOf(op, std::move(gradients)));
    for (size_t k = 0; k < gradients.size(); ++k) {
      if (gradients[k] == kNoValue || !depends_[op.operands[k]]) continue;
      ASYRA_RETURN_IF_ERROR(Add(op.operands[k], gradients[k]));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<ValueId>> GradientsOf(
      const Op& op, std::vector<ValueId> gradients) {
    std::vector<ValueId> operands(op.operands.begin(), op.operands.end());
    std::vector<ValueId> results(op.results.begin(), op.results.end());
    if (IsComputedWide(*op.def)) {
      for (auto* values : {&operands, &results, &gradients}) {
        for (ValueId& value : *values) {
          ASYRA_ASSIGN_OR_RETURN(value, Wide(value));
        }
      }
    } else {
      for (size_t r = 0; r < results.size(); ++r) {
        if (gradients[r] == kNoValue || of_parameter_[results[r]]) continue;
        ASYRA_ASSIGN_OR_RETURN(
            gradients[r], Cast(gradients[r], builder_.type(results[r]).dtype));
      }
    }
    std::string name =
        fmt::format("{}.back", builder_.program().value_name(op.results[0]));
    absl::StatusOr<std::vector<ValueId>> found =
        op.def->vjp(builder_, {op.attrs, operands, results, gradients, name});
    if (found.ok()) return found;
    return Annotate(found.status(),
                    fmt::format("gradient of %{} = {}", name, op.def->name));
  }

  // Adds one reader's part to the gradient of `value`.
  absl::Status Add(ValueId value, ValueId part) {
    DType type = builder_.type(value).dtype;
    ASYRA_ASSIGN_OR_RETURN(
        part, Cast(part, of_parameter_[value] ? Widened(type) : type));
    auto [found, first] = gradients_.try_emplace(value, part);
    if (first) return absl::OkStatus();
    std::string name = fmt::format(
        "{}.sum", GradientName(builder_.program().value_name(value)));
    ASYRA_ASSIGN_OR_RETURN(
        ValueId sum, builder_.AddOne("add", {found->second, part}, {}, name));
    gradients_[value] = sum;
    return absl::OkStatus();
  }

  // The gradient of a param is that of what it is cast to, in f32.
  absl::Status FinishCasts() {
    for (auto [old, param] : param_of_) {
      if (map_[old] == param) continue;
      auto found = gradients_.find(map_[old]);
      if (found != gradients_.end()) gradients_[param] = found->second;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<ValueId> Cast(ValueId value, DType to) {
    if (builder_.type(value).dtype == to) return value;
    auto [found, fresh] =
        casts_.try_emplace(std::make_pair(value, to), kNoValue);
    if (!fresh) return found->second;
    ASYRA_ASSIGN_OR_RETURN(
        ValueId cast,
        builder_.AddOne("cast", {value}, {{"to", to}},
                        fmt::format("{}.{}",
                                    builder_.program().value_name(value),
                                    ToString(to))));
    casts_[std::make_pair(value, to)] = cast;
    return cast;
  }

  absl::StatusOr<ValueId> Wide(ValueId value) {
    if (value == kNoValue) return value;
    return Cast(value, Widened(builder_.type(value).dtype));
  }

  absl::Status NoDerivative(const Op& op) const {
    // The first parameter that it depends on, by way of what it reads.
    const Program& program = builder_.program();
    DefUse def_use(program);
    std::vector<bool> above(program.values.size(), false);
    for (ValueId operand : op.operands) above[operand] = true;
    for (size_t i = program.ops.size(); i-- > 0;) {
      bool read = false;
      for (ValueId result : program.ops[i].results) read |= above[result];
      if (!read) continue;
      for (ValueId operand : program.ops[i].operands) above[operand] = true;
    }
    std::vector<std::string> cut;
    for (const Input& input : program.inputs) {
      if (input.role == InputRole::kParam && above[input.value]) {
        cut.push_back(program.value_name(input.value));
      }
    }
    return Unimplemented(
        "op {} of %{} has no derivative; it is between the loss and {}",
        op.def->name, program.value_name(op.results[0]), ShortList(cut));
  }

  // Names those that were made here and are not yet called so.
  static void Rename(const std::vector<std::pair<ValueId, std::string>>& names,
                     size_t first, Program* program) {
    absl::flat_hash_set<std::string> taken;
    for (const Value& value : program->values) taken.insert(value.name);
    std::vector<bool> named(program->values.size(), false);
    for (const auto& [value, name] : names) {
      if (static_cast<size_t>(value) < first || named[value]) continue;
      if (!taken.insert(name).second) continue;
      program->values[value].name = name;
      named[value] = true;
    }
  }

  static void DropDeadOps(Program* program) {
    std::vector<bool> needed(program->values.size(), false);
    for (const Output& output : program->outputs) needed[output.value] = true;
    std::vector<bool> live(program->ops.size(), false);
    for (size_t i = program->ops.size(); i-- > 0;) {
      const Op& op = program->ops[i];
      live[i] = op.def->is_barrier;
      for (ValueId result : op.results) live[i] = live[i] || needed[result];
      if (!live[i]) continue;
      for (ValueId operand : op.operands) needed[operand] = true;
    }
    size_t next = 0;
    std::erase_if(program->ops, [&](const Op&) { return !live[next++]; });
    program->DropUnusedValues();
  }

  const Program& from_;
  Builder builder_;
  std::vector<ValueId> map_;  // values of from_ to those that readers have
  absl::flat_hash_set<ValueId> is_parameter_;            // of from_
  absl::flat_hash_map<ValueId, ValueId> param_of_;       // from_ to input here
  std::vector<bool> depends_;       // float values that depend on a parameter
  std::vector<bool> of_parameter_;  // elements of parameters, nothing else
  absl::flat_hash_map<ValueId, ValueId> gradients_;
  absl::flat_hash_map<std::pair<ValueId, DType>, ValueId> casts_;
  size_t first_copied_ = 0, forward_values_ = 0;
};

}  // namespace

std::string GradientName(std::string_view value) {
  return fmt::format("{}.grad", value);
}

absl::StatusOr<bool> Differentiate(Program& program, const PassOptions& options,
                                   PassContext& context) {
  std::vector<Parameter> parameters = FindParameters(program);
  ASYRA_ASSIGN_OR_RETURN(std::vector<std::string> ties,
                         TieWeights(program, &parameters));
  for (const std::string& tie : ties) context.remarks.push_back(tie);
  ASYRA_ASSIGN_OR_RETURN(
      parameters, WithoutFrozen(program, std::move(parameters),
                                options.Get<std::string>("freeze")));
  while (true) {
    Differentiator differentiator(program, parameters);
    ASYRA_RETURN_IF_ERROR(differentiator.Run());
    std::vector<ValueId> without = differentiator.WithoutGradient();
    if (without.empty()) {
      program = std::move(differentiator).Finish();
      return true;
    }
    std::vector<std::string> names;
    for (ValueId value : without) names.push_back(program.value_name(value));
    context.Remark("no gradient reaches {}: {} as it is", ShortList(names),
                   names.size() == 1 ? "it stays" : "they stay");
    std::erase_if(parameters, [&](const Parameter& parameter) {
      return std::find(without.begin(), without.end(), parameter.value) !=
             without.end();
    });
  }
}

}  // namespace asyra
