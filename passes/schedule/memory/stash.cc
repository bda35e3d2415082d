#include "passes/schedule/memory/stash.h"

#include <algorithm>
#include <map>
#include <utility>

#include "ir/happens_before.h"
#include "passes/analysis/repeats.h"
#include "passes/train/step_phase.h"
#include "simulator/report/text.h"

namespace asyra {

Stash::Stash(const Program& program)
    : program_(program),
      def_use_(program),
      forward_(ForwardOps(program)),
      kept_(program.ops.size(), false),
      between_layers_(program.ops.size(), false) {
  FindKept();
  FindBetweenLayers();
  FindClasses();
}

int Stash::Source(ValueId value) const {
  int op = def_use_.def[value];
  while (op >= 0 && forward_[op] && program_.ops[op].def->is_view) {
    op = def_use_.def[program_.ops[op].operands[0]];
  }
  return op >= 0 && forward_[op] ? op : -1;
}

void Stash::FindKept() {
  for (size_t i = 0; i < program_.ops.size(); ++i) {
    if (forward_[i]) continue;
    for (ValueId operand : program_.ops[i].operands) {
      int source = Source(operand);
      if (source >= 0) kept_[source] = true;
    }
  }
}

// Finds values at the same place in each layer, the last one included: the next
// layer reads them there, or what comes after all layers does.
void Stash::FindBetweenLayers() {
  for (const Repeat& repeat : FindRepeats(program_)) {
    if (repeat.count < 2) continue;
    std::vector<bool> places(repeat.period, false);
    for (int i = repeat.begin + repeat.period; i < repeat.end(); ++i) {
      if (!forward_[i]) continue;
      int begin = i - (i - repeat.begin) % repeat.period;
      for (ValueId operand : program_.ops[i].operands) {
        int source = Source(operand);
        if (source < repeat.begin || source >= begin) continue;
        places[(source - repeat.begin) % repeat.period] = true;
      }
    }
    for (int i = repeat.begin; i < repeat.end(); ++i) {
      if (places[(i - repeat.begin) % repeat.period]) between_layers_[i] = true;
    }
  }
}

void Stash::FindClasses() {
  std::map<std::string, StashClass> by_name;
  for (size_t i = 0; i < program_.ops.size(); ++i) {
    const Op& op = program_.ops[i];
    if (!kept_[i] || between_layers_[i] || IsConstant(op)) continue;
    std::string name = StarName(program_.value_name(op.results[0]));
    StashClass& of_name = by_name[name];
    of_name.name = name;
    of_name.ops.push_back(static_cast<int>(i));
    for (ValueId result : op.results) {
      of_name.bytes += LocalBytes(program_.type(result), program_.mesh);
    }
  }
  for (auto& [name, stash] : by_name) {
    classes_.push_back(std::move(stash));
  }
  std::stable_sort(classes_.begin(), classes_.end(),
                   [](const StashClass& a, const StashClass& b) {
                     return a.bytes > b.bytes;
                   });
}

}  // namespace asyra
