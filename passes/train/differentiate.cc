#include "passes/train/differentiate.h"

#include <algorithm>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "ir/builder.h"
#include "ir/support/short_list.h"
#include "ir/support/status.h"
#include "ir/weight_origin.h"
#include "passes/train/attach_loss.h"
#include "passes/train/wide_type.h"

namespace asyra {
namespace {

// Returns whether an op only rearranges or repeats elements of its operands: a
// gradient goes through it as it is.
bool IsRearrangement(const OpDef& def) {
  constexpr std::string_view kNames[] = {"reshape",   "transpose", "cast",
                                         "broadcast", "slice",     "concat"};
  return std::find(std::begin(kNames), std::end(kNames), def.name) !=
         std::end(kNames);
}

// Returns whether the derivative is computed in f32 where the op is 16-bit: a
// kernel reads and writes 16 bits either way. Those of norms are one op, f32
// inside.
bool IsComputedWide(const OpDef& def) {
  if (IsRearrangement(def)) return false;
  if (def.name == "rms_norm" || def.name == "layer_norm") return false;
  constexpr std::string_view kOthers[] = {"embedding", "softmax", "log_softmax",
                                          "reduce_sum", "reduce_mean"};
  return def.fusable == Fusable::kElement || def.fusable == Fusable::kRow ||
         std::find(std::begin(kOthers), std::end(kOthers), def.name) !=
             std::end(kOthers);
}

// Returns, by value, whether it is a float that depends on a parameter.
std::vector<bool> DependOnParams(const Program& program) {
  std::vector<bool> depend(program.values.size(), false);
  for (const Input& input : program.inputs) {
    depend[input.value] = input.role == InputRole::kParam;
  }
  for (const Op& op : program.ops) {
    bool any = false;
    for (ValueId operand : op.operands) any |= depend[operand];
    for (ValueId result : op.results) {
      depend[result] = any && IsFloat(program.type(result).dtype);
    }
  }
  return depend;
}

// A forward program with its gradients appended.
class Differentiator {
 public:
  Differentiator(const Program& program, const OpSources& sources)
      : from_(program), sources_(sources), builder_(Builder::Like(program)) {}

  absl::Status Run() {
    ASYRA_RETURN_IF_ERROR(CopyForward());
    ASYRA_ASSIGN_OR_RETURN(ValueId loss, Loss());
    ASYRA_ASSIGN_OR_RETURN(ValueId seed, Seed(loss));
    gradients_[loss] = seed;
    // A copy: ops are added while it is read.
    std::vector<Op> forward = builder_.program().ops;
    forward.resize(forward_ops_);
    for (size_t i = forward.size(); i-- > 0;) {
      ASYRA_RETURN_IF_ERROR(Back(forward[i]));
    }
    return absl::OkStatus();
  }

  // Returns the params that no gradient reaches.
  std::vector<std::string> WithoutGradient() const {
    std::vector<std::string> names;
    for (const Input& input : from_.inputs) {
      if (input.role == InputRole::kParam &&
          !gradients_.contains(map_[input.value])) {
        names.push_back(UserName(from_, input));
      }
    }
    return names;
  }

  Program Finish() && {
    for (const Output& output : from_.outputs) {
      builder_.Output(map_[output.value], kNoValue, from_.output_name(output));
    }
    std::vector<std::pair<ValueId, std::string>> names;
    for (const Input& input : from_.inputs) {
      auto found = gradients_.find(map_[input.value]);
      if (found == gradients_.end()) continue;
      std::string name = GradientName(from_.value_name(input.value));
      builder_.Output(found->second, kNoValue, name);
      names.emplace_back(found->second, std::move(name));
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
    builder_.CopyInputs(from_, &map_);
    std::vector<bool> trained = DependOnParams(from_);
    for (const Op& op : from_.ops) {
      if (op.def->gradient_attr.empty() || !trained[op.results[0]] ||
          op.attrs.Bool(op.def->gradient_attr)) {
        ASYRA_RETURN_IF_ERROR(builder_.Copy(from_, op, &map_));
      } else {
        ASYRA_RETURN_IF_ERROR(CopyForGradient(op));
      }
    }
    forward_values_ = builder_.program().values.size();
    forward_ops_ = builder_.program().ops.size();
    FindDependents();
    return absl::OkStatus();
  }

  // Copies an op with the further results that its derivative reads.
  absl::Status CopyForGradient(const Op& op) {
    Op copy = op;
    copy.attrs.Set(std::string(op.def->gradient_attr), true);
    for (ValueId& operand : copy.operands) operand = map_[operand];
    std::string first = from_.value_name(op.results[0]);
    std::vector<std::string> names;
    for (ValueId result : op.results) names.push_back(from_.value_name(result));
    names.push_back(fmt::format("{}.{}", first, op.def->gradient_attr));
    ASYRA_ASSIGN_OR_RETURN(std::vector<ValueId> results,
                           builder_.Insert(std::move(copy), names));
    for (size_t i = 0; i < op.results.size(); ++i) {
      map_[op.results[i]] = results[i];
    }
    return absl::OkStatus();
  }

  // Finds the values that depend on a parameter, and those that only rearrange
  // one.
  void FindDependents() {
    const Program& program = builder_.program();
    depends_ = DependOnParams(program);
    of_parameter_.assign(program.values.size(), false);
    for (const Input& input : program.inputs) {
      of_parameter_[input.value] = input.role == InputRole::kParam;
    }
    for (const Op& op : program.ops) {
      bool all = !op.operands.empty();
      for (ValueId operand : op.operands) all &= of_parameter_[operand];
      for (ValueId result : op.results) {
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

  // Returns 1, or the scale of gradients in f16.
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

  absl::Status Back(const Op& op) {
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
                    fmt::format("gradient of {}, between the loss and {}",
                                NameOf(op), ShortList(ParamsAbove(op))));
  }

  // Returns "op sgd of %u", and the node of the model's file that it comes
  // from.
  std::string NameOf(const Op& op) const {
    const std::string& value = builder_.program().value_name(op.results[0]);
    std::string name = fmt::format("op {} of %{}", op.def->name, value);
    std::string_view source = SourceOf(sources_, value);
    return source.empty() ? name : fmt::format("{} ({})", name, source);
  }

  // Adds one reader's part to the gradient of `value`.
  absl::Status Add(ValueId value, ValueId part) {
    DType type = builder_.type(value).dtype;
    ASYRA_ASSIGN_OR_RETURN(
        part, Cast(part, of_parameter_[value] ? WideType(type) : type));
    auto [found, first] = gradients_.try_emplace(value, part);
    if (first) return absl::OkStatus();
    std::string name = fmt::format(
        "{}.sum", GradientName(builder_.program().value_name(value)));
    ASYRA_ASSIGN_OR_RETURN(
        ValueId sum, builder_.AddOne("add", {found->second, part}, {}, name));
    gradients_[value] = sum;
    return absl::OkStatus();
  }

  absl::StatusOr<ValueId> Cast(ValueId value, DType to) {
    if (builder_.type(value).dtype == to) return value;
    auto [found, fresh] =
        casts_.try_emplace(std::make_pair(value, to), kNoValue);
    if (!fresh) return found->second;
    ASYRA_ASSIGN_OR_RETURN(
        ValueId cast,
        builder_.AddOne(
            "cast", {value}, {{"to", to}},
            fmt::format("{}.{}", builder_.program().value_name(value),
                        ToString(to))));
    casts_[std::make_pair(value, to)] = cast;
    return cast;
  }

  absl::StatusOr<ValueId> Wide(ValueId value) {
    if (value == kNoValue) return value;
    return Cast(value, WideType(builder_.type(value).dtype));
  }

  // Returns the params that it depends on, by way of what it reads.
  std::vector<std::string> ParamsAbove(const Op& op) const {
    const Program& program = builder_.program();
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
        cut.push_back(UserName(program, input));
      }
    }
    return cut;
  }

  absl::Status NoDerivative(const Op& op) const {
    return Unimplemented("{} has no derivative; it is between the loss and {}",
                         NameOf(op), ShortList(ParamsAbove(op)));
  }

  // Names those that were made here and are not yet called so. Inputs, as the
  // loss scale, keep their names: callers know them.
  static void Rename(const std::vector<std::pair<ValueId, std::string>>& names,
                     size_t first, Program* program) {
    absl::flat_hash_set<std::string> taken;
    for (const Value& value : program->values) taken.insert(value.name);
    std::vector<bool> named(program->values.size(), false);
    for (const Input& input : program->inputs) named[input.value] = true;
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
  const OpSources& sources_;
  Builder builder_;
  std::vector<ValueId> map_;   // values of from_ to those that readers have
  std::vector<bool> depends_;  // float values that depend on a parameter
  std::vector<bool> of_parameter_;  // elements of parameters, nothing else
  absl::flat_hash_map<ValueId, ValueId> gradients_;
  absl::flat_hash_map<std::pair<ValueId, DType>, ValueId> casts_;
  size_t forward_values_ = 0, forward_ops_ = 0;
};

}  // namespace

std::string GradientName(std::string_view value) {
  return fmt::format("{}.grad", value);
}

absl::StatusOr<bool> Differentiate(Program& program, const PassOptions&,
                                   PassContext& context) {
  Differentiator differentiator(program, context.op_sources);
  ASYRA_RETURN_IF_ERROR(differentiator.Run());
  std::vector<std::string> without = differentiator.WithoutGradient();
  if (!without.empty()) {
    context.Remark("no gradient reaches {}: {} as it is", ShortList(without),
                   without.size() == 1 ? "it stays" : "they stay");
  }
  program = std::move(differentiator).Finish();
  return true;
}

}  // namespace asyra
