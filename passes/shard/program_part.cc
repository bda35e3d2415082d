#include "passes/shard/program_part.h"

#include <utility>

namespace asyra {

ProgramPart PartOf(const Program& whole, const DimLabels& labels,
                   std::vector<int> ops) {
  ProgramPart part;
  part.program.name = whole.name;
  part.program.stage = whole.stage;
  part.program.mesh = whole.mesh;
  part.program.values = whole.values;
  part.program.inputs = whole.inputs;
  part.labels.values = labels.values;
  part.labels.of_weights = labels.of_weights;
  part.labels.unread = labels.unread;
  part.labels.names = labels.names;
  std::vector<bool> known(whole.values.size(), false);
  for (const Input& input : whole.inputs) known[input.value] = true;
  std::vector<bool> made(whole.values.size(), false);
  for (int i : ops) {
    const Op& op = whole.ops[i];
    for (ValueId value : op.operands) {
      if (known[value]) continue;
      known[value] = true;
      part.program.inputs.push_back({value, InputRole::kData, {}});
    }
    for (ValueId value : op.results) known[value] = made[value] = true;
    part.program.ops.push_back(op);
    part.labels.rules.push_back(labels.rules[i]);
    part.labels.factors.push_back(labels.factors[i]);
  }
  for (const Output& output : whole.outputs) {
    if (made[output.value]) part.program.outputs.push_back(output);
  }
  part.ops = std::move(ops);
  return part;
}

}  // namespace asyra
