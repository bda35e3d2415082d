#include "tools/report/train_report.h"

#include "fmt/format.h"
#include "ir/support/units.h"
#include "passes/train/step_phase.h"
#include "passes/training_mfu.h"
#include "tools/report/phase_report.h"
#include "tools/report/recompute_report.h"

namespace asyra {

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
