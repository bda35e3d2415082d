#include "passes/training_mfu.h"

#include <vector>

#include "passes/schedule/memory/recompute.h"
#include "passes/train/step_phase.h"
#include "simulator/report/profile.h"

namespace asyra {
namespace {

// The ops whose matmuls count, once, with attention's gradient as two
// attentions.
Program WithModelFlops(const Program& program,
                       const std::vector<StepPhase>& phases) {
  bool attention_has_gradient = false;
  for (const Op& op : program.ops) {
    attention_has_gradient |= op.def->name == "attention_grad";
  }
  Program counted = program;
  counted.ops.clear();
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    if (phases[i] == StepPhase::kUpdate || op.def->name == "attention_grad" ||
        IsComputedAgain(program, op)) {
      continue;
    }
    int times = op.def->name == "attention" && attention_has_gradient ? 3 : 1;
    counted.ops.insert(counted.ops.end(), times, op);
  }
  return counted;
}

}  // namespace

double TrainingMfu(const Program& program, const Machine& machine,
                   double makespan_us) {
  std::vector<StepPhase> phases = PhasesOf(program);
  if (phases.empty()) return 0;
  return ModelFlopUtilization(WithModelFlops(program, phases), machine,
                              makespan_us);
}

}  // namespace asyra
