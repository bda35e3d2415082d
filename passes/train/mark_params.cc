#include "passes/train/mark_params.h"

#include <map>

#include "absl/container/flat_hash_set.h"
#include "ir/builder.h"
#include "ir/support/short_list.h"
#include "ir/support/status.h"
#include "ir/weight_origin.h"
#include "passes/train/parameter_choice.h"
#include "passes/train/parameters.h"
#include "passes/train/wide_type.h"

namespace asyra {
namespace {

absl::StatusOr<Program> WithParams(const Program& program,
                                   const absl::flat_hash_set<ValueId>& params) {
  Builder builder = Builder::Like(program);
  std::vector<ValueId> map(program.values.size(), kNoValue);
  for (const Input& input : program.inputs) {
    Type type = program.type(input.value);
    Input marked = input;
    // A frozen one is none, whatever the text says.
    marked.role = IsWeight(input) ? InputRole::kWeight : input.role;
    if (params.contains(input.value)) {
      marked.role = InputRole::kParam;
      type.dtype = WideType(type.dtype);
    }
    map[input.value] =
        builder.Input(program.value_name(input.value), type, marked);
  }
  for (const Input& input : program.inputs) {
    DType to = program.type(input.value).dtype;
    ValueId& value = map[input.value];
    if (builder.type(value).dtype == to) continue;
    std::string name =
        fmt::format("{}.{}", program.value_name(input.value), ToString(to));
    ASYRA_ASSIGN_OR_RETURN(value,
                           builder.AddOne("cast", {value}, {{"to", to}}, name));
  }
  for (const Op& op : program.ops) {
    ASYRA_RETURN_IF_ERROR(builder.Copy(program, op, &map));
  }
  for (const Output& output : program.outputs) {
    builder.Output(map[output.value], kNoValue, program.output_name(output));
  }
  return std::move(builder).Finish();
}

// Returns whether a pass has computed it from no tensor of the model's file.
bool IsOwnTable(const Program& program, const Input& input,
                const UntrainedWeight& weight) {
  return weight.reason == kRotaryTables && input.origin != nullptr &&
         input.origin->made &&
         input.origin->tensor == program.value_name(input.value);
}

// Adds a remark for each reason for which float weights are not trained.
void NameUntrained(const Program& program,
                   const std::vector<UntrainedWeight>& untrained,
                   PassContext& context) {
  std::map<std::string_view, std::vector<std::string>> names;
  for (const Input& input : program.inputs) {
    for (const UntrainedWeight& weight : untrained) {
      if (weight.value != input.value || IsOwnTable(program, input, weight)) {
        continue;
      }
      // Parts of one tensor are one name.
      std::vector<std::string>& list = names[weight.reason];
      const std::string& name = UserName(program, input);
      if (list.empty() || list.back() != name) list.push_back(name);
    }
  }
  for (const auto& [reason, weights] : names) {
    context.Remark("not trained: {} ({})", ShortList(weights), reason);
  }
}

// Names trained scalars: they look alike whether they are trained or not.
void NameNumbers(const Program& program,
                 const absl::flat_hash_set<ValueId>& params,
                 PassContext& context) {
  std::vector<std::string> names;
  for (const Input& input : program.inputs) {
    if (params.contains(input.value) &&
        program.type(input.value).num_elements() == 1) {
      names.push_back(UserName(program, input));
    }
  }
  if (names.empty()) return;
  context.Remark("trained: {} (single numbers; freeze leaves them)",
                 ShortList(names));
}

}  // namespace

absl::StatusOr<bool> MarkParams(Program& program, const PassOptions& options,
                                PassContext& context) {
  WeightRoles roles = FindParameters(program);
  ParameterChoice choice = {.train = options.Get<std::string>("train"),
                            .freeze = options.Get<std::string>("freeze")};
  if (roles.parameters.empty() && choice.train.empty()) {
    return Invalid("the model has no parameters");
  }
  std::vector<std::string> notes;
  ASYRA_ASSIGN_OR_RETURN(roles,
                         Choose(program, std::move(roles), choice, &notes));
  for (const std::string& note : notes) context.Remark("{}", note);
  NameUntrained(program, roles.untrained, context);
  absl::flat_hash_set<ValueId> params;
  for (const Parameter& one : roles.parameters) params.insert(one.value);
  NameNumbers(program, params, context);
  ASYRA_ASSIGN_OR_RETURN(program, WithParams(program, params));
  return !params.empty();
}

}  // namespace asyra
