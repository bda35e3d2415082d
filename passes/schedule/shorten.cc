#include "passes/schedule/shorten.h"

#include <vector>

#include "passes/analysis/repeats.h"

namespace asyra {
namespace {

// Leaves `layers` stretches of one repeat; false where it cannot.
bool Cut(Program* program, const Repeat& repeat, int layers) {
  int last = repeat.begin + repeat.period * (repeat.count - 1);
  int kept = repeat.begin + repeat.period * (layers - 1);
  int from = kept + repeat.period, to = repeat.end();
  std::vector<ValueId> instead(program->values.size(), kNoValue);
  std::vector<bool> gone(program->values.size(), false);
  for (int op = from; op < to; ++op) {
    for (ValueId value : program->ops[op].results) gone[value] = true;
  }
  for (int i = 0; i < repeat.period; ++i) {
    const Op& then = program->ops[last + i];
    const Op& now = program->ops[kept + i];
    for (size_t r = 0; r < then.results.size(); ++r) {
      instead[then.results[r]] = now.results[r];
    }
  }
  std::vector<Op> ops(program->ops.begin(), program->ops.begin() + from);
  for (size_t op = static_cast<size_t>(to); op < program->ops.size(); ++op) {
    Op copy = program->ops[op];
    for (ValueId& value : copy.operands) {
      if (!gone[value]) continue;
      value = instead[value];
      if (value == kNoValue) return false;
    }
    ops.push_back(std::move(copy));
  }
  std::vector<Output> outputs;
  for (const Output& output : program->outputs) {
    if (!gone[output.value]) {
      outputs.push_back(output);
    } else if (instead[output.value] != kNoValue && output.alias == kNoValue) {
      outputs.push_back(
          {instead[output.value], kNoValue, program->output_name(output)});
    }
  }
  program->ops = std::move(ops);
  program->outputs = std::move(outputs);
  return true;
}

}  // namespace

Program Shorten(const Program& program, int layers) {
  Program shorter = program;
  std::vector<Repeat> repeats = FindRepeats(program);
  // From the end, so that the places of those before stay.
  for (size_t r = repeats.size(); r-- > 0;) {
    if (repeats[r].count <= layers) continue;
    if (!Cut(&shorter, repeats[r], layers)) return program;
  }
  shorter.DropUnusedValues();
  return shorter;
}

}  // namespace asyra
