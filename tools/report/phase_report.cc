#include "tools/report/phase_report.h"

#include <algorithm>
#include <map>
#include <vector>

#include "fmt/format.h"
#include "ir/support/units.h"
#include "nlohmann/json.hpp"
#include "passes/train/step_phase.h"

namespace asyra {
namespace {

struct PhaseTime {
  double elapsed_us = 0, compute_us = 0, comm_us = 0, exposed_us = 0;
  int collectives = 0;
  std::map<std::string, double> exposed_by;  // op, of those that are
};

// Each moment of the step belongs to the earliest phase that runs an op then;
// one without any for the phase of the next op, or of the last one.
void AddElapsed(const std::vector<std::pair<StepPhase, const ProfileOp*>>& ops,
                double makespan_us, std::map<StepPhase, PhaseTime>* times) {
  struct Edge {
    double us;
    StepPhase phase;
    int running;  // 1 as it begins, -1 as it ends
  };
  std::vector<Edge> edges;
  for (const auto& [phase, op] : ops) {
    edges.push_back({op->start_us, phase, 1});
    edges.push_back({op->end_us, phase, -1});
  }
  std::stable_sort(edges.begin(), edges.end(),
                   [](const Edge& a, const Edge& b) { return a.us < b.us; });
  std::map<StepPhase, int> running;
  StepPhase last = StepPhase::kForward;
  double until_us = 0;
  for (const Edge& edge : edges) {
    auto first =
        std::find_if(running.begin(), running.end(),
                     [](const auto& entry) { return entry.second > 0; });
    StepPhase phase = first == running.end() ? edge.phase : first->first;
    (*times)[phase].elapsed_us += edge.us - until_us;
    until_us = edge.us;
    running[edge.phase] += edge.running;
    last = edge.phase;
  }
  (*times)[last].elapsed_us += makespan_us - until_us;
}

// Returns the times of a training step; empty for other programs.
std::map<StepPhase, PhaseTime> PhaseTimes(const Program& program,
                                          const Profile& profile) {
  std::vector<StepPhase> phases = PhasesOf(program);
  std::map<std::string, StepPhase> of_name;
  for (size_t i = 0; i < phases.size(); ++i) {
    of_name[program.value_name(program.ops[i].results[0])] = phases[i];
  }
  std::map<StepPhase, PhaseTime> times;
  if (phases.empty()) return times;
  std::vector<std::pair<StepPhase, const ProfileOp*>> ops;
  for (const ProfileOp& op : profile.ops) {
    ops.emplace_back(of_name[op.name], &op);
    PhaseTime& time = times[ops.back().first];
    (op.is_collective() ? time.comm_us : time.compute_us) += op.duration_us();
    time.exposed_us += op.exposed_us;
    if (op.exposed_us > 0) time.exposed_by[op.name] += op.exposed_us;
    time.collectives += op.is_collective() ? 1 : 0;
  }
  AddElapsed(ops, profile.makespan_us, &times);
  return times;
}

}  // namespace

std::string PhasesText(const Program& program, const Profile& profile) {
  std::string text;
  std::map<StepPhase, PhaseTime> phases = PhaseTimes(program, profile);
  double largest_us = 0;
  for (const auto& [phase, time] : phases) {
    largest_us =
        std::max({largest_us, time.elapsed_us, time.compute_us, time.comm_us});
  }
  TimeColumn times(largest_us);
  for (const auto& [phase, time] : phases) {
    text +=
        fmt::format("  {:<9} {:>10}: {:>10} of computation", ToString(phase),
                    times.Text(time.elapsed_us), times.Text(time.compute_us));
    if (time.collectives > 0) {
      text +=
          fmt::format(", {} collective{} of {}, {} exposed", time.collectives,
                      time.collectives == 1 ? "" : "s",
                      times.Text(time.comm_us), times.Text(time.exposed_us));
    }
    text += "\n";
  }
  return text.empty() ? text : " training step\n" + text;
}

nlohmann::json PhasesJson(const Program& program, const Profile& profile) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [phase, time] : PhaseTimes(program, profile)) {
    json[std::string(ToString(phase))] = {
        {"elapsed_us", time.elapsed_us}, {"compute_us", time.compute_us},
        {"comm_us", time.comm_us},       {"exposed_us", time.exposed_us},
        {"exposed_by", time.exposed_by}, {"collectives", time.collectives}};
  }
  return json;
}

}  // namespace asyra
