#include "tools/schedule_styles.h"

#include <algorithm>

#include "absl/strings/str_replace.h"
#include "fmt/format.h"
#include "ir/printer.h"
#include "ir/support/status.h"
#include "passes/pipeline.h"
#include "simulator/simulate.h"

namespace asyra {
namespace {

// Forms of collectives around norms under tp that are scheduled and compared:
// which pipelines best is not known before (simulator/README.md). The plan that
// costs least unscheduled comes first.
std::vector<std::string> Styles(const CompileOptions& options,
                                const Program& program) {
  constexpr int kStepsForAll = 1000;
  std::vector<std::string> styles = {options.tp_style};
  AxisId tp = program.mesh.Find("tp");
  if (program.stage == Stage::kGlobal && !options.propagate &&
      options.tp_style == "auto" && options.search_steps >= kStepsForAll &&
      tp >= 0 && program.mesh.size(tp) > 1) {
    styles.insert(styles.end(), {"sequence", "replicated"});
  }
  return styles;
}

// Takes over the other's program where that is faster; names of its candidates
// say how it differs.
void Compare(ScheduleResult other, const std::string& style,
             ScheduleResult* best) {
  std::string suffix = fmt::format(", tp-style {}", style);
  bool better = other.optimized.makespan_us < best->optimized.makespan_us;
  if (better) std::swap(best->program, other.program);
  for (ScheduleChoice& choice : best->candidates) {
    if (better && choice.rejected.empty()) {
      choice.rejected = "slower than tp-style " + style;
    }
  }
  for (ScheduleChoice& choice : other.candidates) {
    if (!better && choice.rejected.empty()) {
      choice.rejected = "slower than what the plan gives";
    }
    choice.name += suffix;
    best->candidates.push_back(std::move(choice));
  }
  best->steps += other.steps;
  if (!better) return;
  best->optimized = std::move(other.optimized);
  best->tiles = other.tiles;
  best->scheduler = std::move(other.scheduler);
}

std::string FusePipeline(const CompileOptions& options) {
  std::string fuse = fmt::format("fuse{{measured_only={}, epilogues={}}}",
                                 options.measured_only, options.epilogues);
  return absl::StrReplaceAll(std::string(kFusePipeline), {{"fuse", fuse}});
}

std::string StreamsPipeline(const CompileOptions& options) {
  std::string pipeline(kStreamsPipeline);
  return options.measured_only ? pipeline + "{ctas=false}" : pipeline;
}

}  // namespace

std::string ShardPipeline(const CompileOptions& options) {
  auto text = [](const std::string& value) {
    return ToString(AttrValue(value), Mesh());
  };
  if (options.propagate) {
    return fmt::format("propagate_sharding{{seeds={}}}, partition",
                       text(options.shard));
  }
  std::string plan =
      fmt::format("{{pins={}, experts={}, tp_style={}, ep_style={}}}",
                  text(options.shard), text(ExpertAxes(options)),
                  text(options.tp_style), text(options.ep_style));
  return absl::StrReplaceAll(std::string(kShardPipeline),
                             {{"pad_dims", "pad_dims" + plan},
                              {"plan_sharding", "plan_sharding" + plan}});
}

std::string ExpertAxes(const CompileOptions& options) {
  auto dp = static_cast<double>(options.dp);
  auto sp = static_cast<double>(options.sp);
  auto ep = static_cast<double>(options.ep);
  double own = dp * sp * ep * static_cast<double>(options.tp);
  if (ep <= 1 || static_cast<double>(options.ranks.value_or(0)) == own) {
    return "";
  }
  if (dp > 1 && sp > 1 && dp * sp == ep) return "dp,sp";
  if (dp == ep) return "dp";
  return sp == ep ? "sp" : "";
}

ScheduleOptions ScheduleOptionsOf(const CompileOptions& options,
                                  const PassManagerOptions& manager) {
  ScheduleOptions schedule;
  schedule.tiles = options.tiles;
  schedule.tile_dim = options.tile_dim;
  schedule.scheduler = options.scheduler;
  schedule.bucket = options.bucket;
  schedule.join = options.join;
  schedule.search_steps = options.search_steps;
  schedule.memory_bytes =
      static_cast<int64_t>(options.memory_gib * (int64_t{1} << 30));
  schedule.manager = manager;
  return schedule;
}

absl::Status ScheduleBestStyle(const CompileOptions& options,
                               const PassManagerOptions& manager,
                               PassContext& context, CompileResult* result) {
  std::vector<std::string> seen, remarks;
  for (const std::string& style : Styles(options, result->program)) {
    CompileOptions styled = options;
    styled.tp_style = style;
    PassContext own = context;
    Program program = result->program;
    if (program.stage == Stage::kGlobal) {
      ASYRA_RETURN_IF_ERROR(RunPasses(program, ShardPipeline(styled), own,
                                      manager, &result->timings));
    }
    if (options.fuse) {
      ASYRA_RETURN_IF_ERROR(RunPasses(program, FusePipeline(options), own,
                                      manager, &result->timings));
    }
    std::string text = ToString(program);
    if (std::find(seen.begin(), seen.end(), text) != seen.end()) continue;
    seen.push_back(std::move(text));
    ASYRA_ASSIGN_OR_RETURN(
        ScheduleResult scheduled,
        Schedule(program, ScheduleOptionsOf(options, manager), own));
    // Thread blocks, copy engines and second streams gain more in some forms.
    ASYRA_RETURN_IF_ERROR(RunPasses(scheduled.program, StreamsPipeline(options),
                                    own, manager, &result->timings));
    scheduled.optimized = Simulate(scheduled.program, *own.costs);
    bool first = !result->schedule.has_value();
    double before_us = first ? 0 : result->schedule->optimized.makespan_us;
    if (first) {
      result->partitioned = std::move(program);
      result->schedule = std::move(scheduled);
    } else {
      Compare(std::move(scheduled), style, &*result->schedule);
    }
    if (first || result->schedule->optimized.makespan_us < before_us) {
      remarks = std::move(own.remarks);
    }
  }
  context.remarks = std::move(remarks);
  result->program = result->schedule->program;
  return absl::OkStatus();
}

}  // namespace asyra
