#include "tools/report/train_report.h"

#include "fmt/format.h"
#include "ir/support/units.h"
#include "passes/schedule/memory/recompute.h"
#include "passes/train/step_phase.h"
#include "tools/report/phase_report.h"
#include "tools/report/recompute_report.h"

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

std::optional<TrainReport> ReportTraining(const Program& program,
                                          const SimResult& result,
                                          const Machine& machine,
                                          Profile* profile) {
  if (PhasesOf(program).empty()) return std::nullopt;
  profile->mfu = TrainingMfu(program, machine, result.makespan_us);
  TrainReport report;
  if (profile->step.known()) {
    report.unit = profile->step.unit();
    report.tokens_per_s_device =
        TokensPerSecond(profile->step, result.makespan_us) /
        static_cast<double>(program.mesh.num_devices());
  }
  report.phases = PhasesText(program, *profile);
  report.phases_json = PhasesJson(program, *profile);
  report.memory = StepMemory(program, result, machine);
  return report;
}

std::string TrainText(const TrainReport& report) {
  std::string text = report.phases + LossChunksText(report.loss_chunks) +
                     RecomputeText(report.recompute);
  if (report.tokens_per_s_device > 0) {
    text += fmt::format("  {}{} a second and device\n",
                        CountText(report.tokens_per_s_device), report.unit);
  }
  return text + StepMemoryText(report.memory);
}

nlohmann::json TrainJson(const TrainReport& report) {
  return {{"tokens_per_s_device", report.tokens_per_s_device},
          {"phases", report.phases_json},
          {"loss_chunks", report.loss_chunks},
          {"recompute", RecomputeJson(report.recompute)},
          {"memory", StepMemoryJson(report.memory)}};
}

}  // namespace asyra
