#include "tools/train/step_timelines.h"

#include "executor/trace.h"
#include "ir/support/status.h"
#include "passes/analysis/step_shape.h"
#include "passes/training_mfu.h"
#include "simulator/cost/load_machine.h"
#include "simulator/machine/machine.h"
#include "simulator/replay/simulate.h"
#include "simulator/report/profile_json.h"
#include "tools/report/train_report.h"

namespace asyra {

absl::StatusOr<std::vector<Profile>> StepTimelines(
    const TrainingPrograms& training, const std::vector<std::string>& edits,
    const MeasuredStep& ran) {
  const Program& step = training.step;
  std::vector<Profile> profiles;
  absl::StatusOr<Machine> machine = LoadMachine(training.info.machine, edits);
  if (machine.ok()) {
    CostModel costs(*machine, step.mesh);
    SimResult simulated = Simulate(step, costs);
    Profile& predicted = profiles.emplace_back(
        MakeProfile(step, simulated, costs,
                    {.model = training.info.model, .step = StepShapeOf(step)}));
    predicted.mfu = TrainingMfu(step, *machine, simulated.makespan_us);
  }
  ASYRA_ASSIGN_OR_RETURN(
      Profile measured,
      ReadProfile(WriteProfileTrace(ran.program, /*rank=*/0, ran.times),
                  fmt::format("step {} on {}", ran.number, ran.device)));
  if (!profiles.empty()) {
    measured.devices = profiles[0].devices;
    measured.mesh = profiles[0].mesh;
    measured.step = profiles[0].step;
    // Peaks are those of GPUs.
    if (ran.device != "cpu") {
      measured.mfu = training.info.peak_us / measured.makespan_us;
    }
  }
  profiles.push_back(std::move(measured));
  return profiles;
}

}  // namespace asyra
