#include "passes/schedule.h"

#include "ir/support/status.h"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"

namespace asyra {
namespace {

struct Candidate {
  std::string name;
  std::string pipeline;
  int tiles;
  bool forced;
};

std::vector<Candidate> CandidatesFor(const ScheduleOptions& options) {
  // Every collective where it stands, waited for at once.
  std::vector<Candidate> list = {
      {"1 tile, collectives started early", SchedulePipeline(1), 1, false}};
  for (int tiles : {2, 3, 4}) {
    bool forced = options.tiles == tiles;
    if (!forced && (options.tiles != 0 || tiles != 2)) continue;
    list.push_back({fmt::format("{} tiles, segmented round robin", tiles),
                    SchedulePipeline(tiles), tiles, forced});
  }
  if (options.tiles > 4) {
    list.push_back(
        {fmt::format("{} tiles, segmented round robin", options.tiles),
         SchedulePipeline(options.tiles), options.tiles, true});
  }
  return list;
}

}  // namespace

std::string SchedulePipeline(int tiles) {
  if (tiles <= 1) return "start_collectives";
  return fmt::format("tile{{tiles={}}}, start_collectives, reorder, bucket",
                     tiles);
}

absl::StatusOr<ScheduleResult> Schedule(const Program& program,
                                        const ScheduleOptions& options,
                                        PassContext& context) {
  if (context.costs == nullptr) return Invalid("needs prices: give --machine");
  ScheduleResult result;
  result.baseline = Simulate(program, *context.costs);
  int chosen = -1;
  for (const Candidate& candidate : CandidatesFor(options)) {
    PassContext trial_context = context;
    trial_context.remarks.clear();
    Program trial = program;
    ScheduleChoice choice{candidate.name, 0, 0, ""};
    absl::Status status =
        RunPasses(trial, candidate.pipeline, trial_context, options.manager);
    if (!status.ok()) {
      if (candidate.forced) return status;
      choice.rejected = std::string(MessageOf(status));
      result.candidates.push_back(std::move(choice));
      continue;
    }
    SimResult simulated = Simulate(trial, *context.costs);
    choice.makespan_us = simulated.makespan_us;
    choice.peak_bytes = simulated.peak_bytes;
    bool better =
        chosen < 0 || simulated.makespan_us < result.optimized.makespan_us;
    if (!better && !candidate.forced) {
      choice.rejected =
          fmt::format("slower than {}", result.candidates[chosen].name);
    } else {
      if (chosen >= 0) {
        result.candidates[chosen].rejected =
            better ? "slower than " + candidate.name
                   : fmt::format("{} tiles were asked for", candidate.tiles);
      }
      chosen = static_cast<int>(result.candidates.size());
      result.program = std::move(trial);
      result.optimized = simulated;
      result.tiles = candidate.tiles;
      for (std::string& remark : trial_context.remarks) {
        if (candidate.tiles > 1) context.remarks.push_back(std::move(remark));
      }
    }
    result.candidates.push_back(std::move(choice));
  }
  return result;
}

}  // namespace asyra
