#include "passes/shard/partition.h"

#include "ir/builder.h"
#include "ir/printer.h"
#include "ir/support/status.h"
#include "passes/shard/draw_parts.h"
#include "passes/shard/redistribute.h"

namespace asyra {
namespace {

class Partitioner {
 public:
  Partitioner(const Program& from, const ShardingPlan& plan,
              const PlanCosts& costs)
      : from_(from),
        plan_(plan),
        costs_(costs),
        def_use_(from),
        builder_(Builder::Like(from)),
        forms_(from.values.size()) {
    builder_.mutable_program().stage = Stage::kLocal;
  }

  absl::StatusOr<Program> Run() {
    for (size_t i = 0; i < from_.inputs.size(); ++i) {
      const Input& input = from_.inputs[i];
      forms_[input.value] = {builder_.Input(from_.value_name(input.value),
                                            plan_.inputs[i], input)};
    }
    for (size_t i = 0; i < from_.ops.size(); ++i) {
      absl::Status status = AddOp(static_cast<int>(i));
      if (!status.ok()) {
        return Annotate(status, ToString(from_, from_.ops[i]));
      }
    }
    for (const Output& output : from_.outputs) {
      ASYRA_RETURN_IF_ERROR(AddOutput(output));
    }
    return std::move(builder_).Finish();
  }

 private:
  absl::Status AddOp(int i) {
    const Op& op = from_.ops[i];
    const OpSharding& sharding = plan_.ops[i];
    if (!plan_.again.empty() && i == plan_.again_from) ForgetForms();
    ASYRA_ASSIGN_OR_RETURN(AxisRule rule, AxisRuleOf(OpUse(from_, op)));
    Op local = op;
    for (size_t k = 0; k < op.operands.size(); ++k) {
      ASYRA_ASSIGN_OR_RETURN(
          Type need,
          ApplyFactorAxes(from_.type(op.operands[k]), rule.operands[k], rule,
                          sharding.factors, from_.mesh));
      need.partial = sharding.partial[k];
      ASYRA_ASSIGN_OR_RETURN(local.operands[k], Bring(op.operands[k], need));
    }
    std::vector<std::string> names;
    for (ValueId value : op.results) names.push_back(from_.value_name(value));
    ASYRA_ASSIGN_OR_RETURN(std::vector<ValueId> results,
                           builder_.Insert(std::move(local), names));
    for (size_t k = 0; k < results.size(); ++k) {
      forms_[op.results[k]] = {results[k]};
      ASYRA_RETURN_IF_ERROR(KeepPinned(op.results[k]));
    }
    return absl::OkStatus();
  }

  // Leaves of some values only the form in which they were made or given.
  void ForgetForms() {
    for (size_t v = 0; v < forms_.size(); ++v) {
      if (plan_.again[v] && forms_[v].size() > 1) forms_[v].resize(1);
    }
  }

  // A pinned value is redistributed at once, and read in that form.
  absl::Status KeepPinned(ValueId value) {
    bool read =
        !def_use_.uses[value].empty() || def_use_.output_uses[value] > 0;
    const Type* pin = PinOf(plan_.pins, value);
    if (!read || pin == nullptr) return absl::OkStatus();
    ASYRA_ASSIGN_OR_RETURN(ValueId pinned, Bring(value, *pin));
    forms_[value] = {pinned};
    return absl::OkStatus();
  }

  // The value in the distribution `need`, from the available one of lowest
  // cost.
  absl::StatusOr<ValueId> Bring(ValueId value, const Type& need) {
    Redistribution best;
    ValueId source = kNoValue;
    absl::Status error;
    for (ValueId form : forms_[value]) {
      if (builder_.type(form) == need) return form;
      absl::StatusOr<Redistribution> found =
          Redistribute(builder_.type(form), need, from_.mesh, costs_);
      if (!found.ok()) {
        error = found.status();
      } else if (source == kNoValue || found->us < best.us) {
        best = *std::move(found);
        source = form;
      }
    }
    if (source == kNoValue) return error;
    for (RedistributeStep& step : best.steps) {
      ASYRA_ASSIGN_OR_RETURN(
          source, builder_.AddOne(
                      step.op, {source}, std::move(step.attrs),
                      fmt::format("{}.{}", from_.value_name(value), step.op)));
      forms_[value].push_back(source);
    }
    return source;
  }

  absl::Status AddOutput(const Output& output) {
    const std::string& name = from_.output_name(output);
    if (output.alias != kNoValue) {
      // The next step reads it in the place of the state it replaces.
      ValueId state = forms_[output.alias][0];
      ASYRA_ASSIGN_OR_RETURN(ValueId value,
                             Bring(output.value, builder_.type(state)));
      builder_.Output(value, state, name);
      return absl::OkStatus();
    }
    for (ValueId form : forms_[output.value]) {
      if (!builder_.type(form).partial.empty()) continue;
      builder_.Output(form, kNoValue, name);
      return absl::OkStatus();
    }
    Type whole = builder_.type(forms_[output.value][0]);
    whole.partial.clear();
    ASYRA_ASSIGN_OR_RETURN(ValueId value, Bring(output.value, whole));
    builder_.Output(value, kNoValue, name);
    return absl::OkStatus();
  }

  const Program& from_;
  const ShardingPlan& plan_;
  const PlanCosts& costs_;
  DefUse def_use_;
  Builder builder_;
  std::vector<std::vector<ValueId>> forms_;  // by value: all its distributions
};

}  // namespace

absl::StatusOr<Program> Partition(const Program& program,
                                  const ShardingPlan& plan,
                                  const PlanCosts& costs) {
  ASYRA_ASSIGN_OR_RETURN(Program local,
                         Partitioner(program, plan, costs).Run());
  DrawParts(&local);
  return local;
}

}  // namespace asyra
