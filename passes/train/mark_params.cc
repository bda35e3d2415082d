#include "passes/train/mark_params.h"

#include <map>

#include "absl/container/flat_hash_set.h"
#include "ir/builder.h"
#include "ir/support/short_list.h"
#include "ir/support/status.h"
#include "passes/train/parameters.h"
#include "passes/train/tie_weights.h"
#include "passes/train/wide_type.h"

namespace asyra {
namespace {

absl::StatusOr<Program> WithParams(const Program& program,
                                   const absl::flat_hash_set<ValueId>& params) {
  Builder builder = Builder::Like(program);
  std::vector<ValueId> map(program.values.size(), kNoValue);
  for (const Input& input : program.inputs) {
    Type type = program.type(input.value);
    bool param = params.contains(input.value);
    if (param) type.dtype = WideType(type.dtype);
    map[input.value] =
        builder.Input(program.value_name(input.value), type,
                      param ? InputRole::kParam : input.role, input.stored);
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

// A remark for each reason for which float weights are not trained.
void NameUntrained(const Program& program, PassContext& context) {
  std::map<std::string_view, std::vector<std::string>> names;
  for (const UntrainedWeight& weight : FindUntrained(program)) {
    names[weight.reason].push_back(program.value_name(weight.value));
  }
  for (const auto& [reason, weights] : names) {
    context.Remark("not trained: {} ({})", ShortList(weights), reason);
  }
}

}  // namespace

absl::StatusOr<bool> MarkParams(Program& program, const PassOptions& options,
                                PassContext& context) {
  std::vector<Parameter> parameters = FindParameters(program);
  if (parameters.empty()) return Invalid("the model has no parameters");
  NameUntrained(program, context);
  ASYRA_ASSIGN_OR_RETURN(std::vector<std::string> ties,
                         TieWeights(program, &parameters));
  for (const std::string& tie : ties) context.Remark("{}", tie);
  ASYRA_ASSIGN_OR_RETURN(parameters,
                         WithoutFrozen(program, std::move(parameters),
                                       options.Get<std::string>("freeze")));
  absl::flat_hash_set<ValueId> params;
  for (const Parameter& parameter : parameters) params.insert(parameter.value);
  ASYRA_ASSIGN_OR_RETURN(program, WithParams(program, params));
  return !params.empty();
}

}  // namespace asyra
