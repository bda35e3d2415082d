#include "ir/builder.h"

#include "fmt/format.h"
#include "ir/support/check.h"
#include "ir/support/status.h"

namespace asyra {

Builder::Builder(Mesh mesh, Stage stage) {
  program_.mesh = std::move(mesh);
  program_.stage = stage;
}

Builder Builder::Like(const Program& like) {
  Builder builder(like.mesh, like.stage);
  builder.program_.name = like.name;
  builder.program_.streams = like.streams;
  builder.program_.weights = like.weights;
  return builder;
}

std::string Builder::UniqueName(std::string_view name) {
  std::string unique(name.empty() ? "v" : name);
  if (names_.insert(unique).second) return unique;
  int& suffix = suffixes_[unique];
  std::string candidate;
  do {
    candidate = fmt::format("{}.{}", unique, ++suffix);
  } while (!names_.insert(candidate).second);
  return candidate;
}

ValueId Builder::NewValue(std::string_view name, Type type) {
  program_.values.push_back({UniqueName(name), std::move(type)});
  return static_cast<ValueId>(program_.values.size()) - 1;
}

ValueId Builder::Input(std::string_view name, Type type, InputRole role,
                       Shape stored) {
  ValueId value = NewValue(name, std::move(type));
  program_.inputs.push_back({value, role, std::move(stored)});
  return value;
}

ValueId Builder::Input(const Program& from, const struct Input& like) {
  return Input(from.value_name(like.value), from.type(like.value), like);
}

ValueId Builder::Input(std::string_view name, Type type,
                       const struct Input& like) {
  ValueId value = NewValue(name, std::move(type));
  program_.inputs.push_back(like);
  program_.inputs.back().value = value;
  return value;
}

void Builder::Output(ValueId value, ValueId alias, std::string_view name) {
  program_.AddOutput(value, alias, name);
}

std::vector<ValueId> Builder::Append(Op op, absl::Span<const Type> types,
                                     absl::Span<const std::string> names) {
  std::vector<ValueId> results;
  for (size_t i = 0; i < types.size(); ++i) {
    results.push_back(NewValue(names[i], types[i]));
  }
  op.results.assign(results.begin(), results.end());
  program_.ops.push_back(std::move(op));
  return results;
}

absl::StatusOr<std::vector<ValueId>> Builder::Add(
    std::string_view name_of_op, absl::Span<const ValueId> operands,
    AttrMap attrs, std::string_view name) {
  const OpDef* def = FindOp(name_of_op);
  if (def == nullptr) return Invalid("unknown op {}", name_of_op);
  Op op;
  op.def = def;
  op.operands.assign(operands.begin(), operands.end());
  ASYRA_RETURN_IF_ERROR(CompleteAttrs(*def, &attrs));
  op.attrs = std::move(attrs);
  return Insert(std::move(op), {std::string(name.empty() ? name_of_op : name)});
}

absl::StatusOr<std::vector<ValueId>> Builder::Insert(
    Op op, absl::Span<const std::string> names) {
  ASYRA_ASSIGN_OR_RETURN(
      std::vector<Type> types,
      InferTypes(*op.def, op.attrs, program_.OperandTypes(op), program_.mesh));
  if (op.start) {
    for (Type& type : types) type.future = true;
  }
  std::vector<std::string> all(names.begin(), names.end());
  all.resize(types.size(), all.front());
  return Append(std::move(op), types, all);
}

absl::StatusOr<ValueId> Builder::AddOne(std::string_view op,
                                        absl::Span<const ValueId> operands,
                                        AttrMap attrs, std::string_view name) {
  ASYRA_ASSIGN_OR_RETURN(std::vector<ValueId> results,
                         Add(op, operands, std::move(attrs), name));
  ASYRA_CHECK(results.size() == 1);
  return results[0];
}

absl::Status Builder::Copy(const Program& from, const Op& op,
                           std::vector<ValueId>* map) {
  Op copy = op;
  for (ValueId& operand : copy.operands) operand = (*map)[operand];
  for (ValueId& value : copy.after) value = (*map)[value];
  std::vector<std::string> names;
  for (ValueId result : op.results) names.push_back(from.value_name(result));
  ASYRA_ASSIGN_OR_RETURN(std::vector<ValueId> results,
                         Insert(std::move(copy), names));
  for (size_t i = 0; i < results.size(); ++i) {
    (*map)[op.results[i]] = results[i];
  }
  return absl::OkStatus();
}

void Builder::CopyInputs(const Program& from, std::vector<ValueId>* map) {
  for (const asyra::Input& input : from.inputs) {
    (*map)[input.value] = Input(from, input);
  }
}

void Builder::CopyOutputs(const Program& from,
                          const std::vector<ValueId>& map) {
  for (const asyra::Output& output : from.outputs) {
    Output(map[output.value],
           output.alias == kNoValue ? kNoValue : map[output.alias],
           from.output_name(output));
  }
}

ValueId Builder::Constant(const Tensor& value, std::string_view name) {
  return ASYRA_VALUE(AddOne("constant", {}, {{"value", value}}, name));
}

Program Builder::Finish() && {
  names_.clear();
  return std::move(program_);
}

}  // namespace asyra
