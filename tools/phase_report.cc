#include "tools/phase_report.h"

#include <map>

#include "fmt/format.h"
#include "ir/support/units.h"
#include "nlohmann/json.hpp"
#include "passes/train/step_phase.h"

namespace asyra {
namespace {

struct PhaseTime {
  double compute_us = 0, comm_us = 0, exposed_us = 0;
  int collectives = 0;
};

// Of a training step; empty for others.
std::map<StepPhase, PhaseTime> PhaseTimes(const Program& program,
                                          const Profile& profile) {
  std::vector<StepPhase> phases = PhasesOf(program);
  std::map<std::string, StepPhase> of_name;
  for (size_t i = 0; i < phases.size(); ++i) {
    of_name[program.value_name(program.ops[i].results[0])] = phases[i];
  }
  std::map<StepPhase, PhaseTime> times;
  if (phases.empty()) return times;
  for (const ProfileOp& op : profile.ops) {
    PhaseTime& time = times[of_name[op.name]];
    (op.is_collective() ? time.comm_us : time.compute_us) += op.duration_us();
    time.exposed_us += op.exposed_us;
    time.collectives += op.is_collective() ? 1 : 0;
  }
  return times;
}

}  // namespace

std::string PhasesText(const Program& program, const Profile& profile) {
  std::string text;
  for (const auto& [phase, time] : PhaseTimes(program, profile)) {
    text += fmt::format("  {:<9} {:>9} of computation", ToString(phase),
                        TimeText(time.compute_us));
    if (time.collectives > 0) {
      text += fmt::format(", {} collective{} of {}, {} exposed",
                          time.collectives, time.collectives == 1 ? "" : "s",
                          TimeText(time.comm_us), TimeText(time.exposed_us));
    }
    text += "\n";
  }
  return text.empty() ? text : " training step\n" + text;
}

nlohmann::json PhasesJson(const Program& program, const Profile& profile) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [phase, time] : PhaseTimes(program, profile)) {
    json[std::string(ToString(phase))] = {{"compute_us", time.compute_us},
                                          {"comm_us", time.comm_us},
                                          {"exposed_us", time.exposed_us},
                                          {"collectives", time.collectives}};
  }
  return json;
}

}  // namespace asyra
