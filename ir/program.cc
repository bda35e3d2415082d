#include "ir/program.h"

#include <algorithm>

namespace asyra {

std::string_view ToString(Stage stage) {
  constexpr std::string_view kNames[] = {"global", "local", "scheduled",
                                         "allocated"};
  return kNames[static_cast<int>(stage)];
}

Shape Program::GivenShape(const Input& input) const {
  return input.stored.empty() ? type(input.value).shape() : input.stored;
}

ValueId Program::FindValue(std::string_view name) const {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].name == name) return static_cast<ValueId>(i);
  }
  return kNoValue;
}

StreamId Program::Stream(std::string_view name) {
  auto at = std::find(streams.begin(), streams.end(), name);
  if (at == streams.end()) at = streams.emplace(at, name);
  return static_cast<StreamId>(at - streams.begin());
}

void Program::AddOutput(ValueId value, ValueId alias, std::string_view name) {
  bool own = name != value_name(value);
  outputs.push_back({value, alias, std::string(own ? name : "")});
}

void Program::DropUnusedValues() {
  std::vector<ValueId> map(values.size(), kNoValue);
  for (const Input& input : inputs) map[input.value] = 0;
  for (const Op& op : ops) {
    for (ValueId value : op.results) map[value] = 0;
  }
  ValueId next = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (map[i] == kNoValue) continue;
    map[i] = next;
    if (static_cast<size_t>(next) != i) values[next] = std::move(values[i]);
    ++next;
  }
  values.resize(next);
  for (Input& input : inputs) input.value = map[input.value];
  for (Output& output : outputs) {
    output.value = map[output.value];
    if (output.alias != kNoValue) output.alias = map[output.alias];
  }
  for (Op& op : ops) {
    for (ValueId& value : op.operands) value = map[value];
    for (ValueId& value : op.results) value = map[value];
    for (ValueId& value : op.after) value = map[value];
  }
}

std::vector<Type> Program::OperandTypes(const Op& op) const {
  std::vector<Type> types;
  for (ValueId value : op.operands) types.push_back(values[value].type);
  return types;
}

std::vector<Type> Program::ResultTypes(const Op& op) const {
  std::vector<Type> types;
  for (ValueId value : op.results) types.push_back(values[value].type);
  return types;
}

bool MayOverwrite(const Program& program, const Op& op, size_t operand,
                  size_t result) {
  if (!op.def->in_place || (operand != result && op.is_collective())) {
    return false;
  }
  if (op.def->result_in_place == nullptr) return true;
  return op.def->result_in_place(OpUse(program, op), static_cast<int>(operand),
                                 static_cast<int>(result));
}

DefUse::DefUse(const Program& program)
    : def(program.values.size(), -1),
      uses(program.values.size()),
      output_uses(program.values.size(), 0) {
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    for (ValueId value : op.results) def[value] = static_cast<int>(i);
    for (ValueId value : op.operands) {
      // An op that reads a value twice is one user.
      if (uses[value].empty() || uses[value].back() != static_cast<int>(i)) {
        uses[value].push_back(static_cast<int>(i));
      }
    }
  }
  for (const Output& output : program.outputs) ++output_uses[output.value];
}

int DefUse::FirstWait(const Op& start) const {
  int first = -1;
  for (ValueId future : start.results) {
    if (uses[future].empty()) continue;
    int wait = uses[future].front();
    if (first < 0 || wait < first) first = wait;
  }
  return first;
}

}  // namespace asyra
