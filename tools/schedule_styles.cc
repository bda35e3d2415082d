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

// With fewer, only what was asked for is scheduled.
constexpr int kStepsForAll = 1000;
// Of the steps, those that sums apart get: hardly less is found with a quarter
// of them, and another form costs less time.
constexpr int kShareOfSums = 4;

// Of TpStyles, those that are scheduled here. The plan that costs least
// unscheduled comes first; which pipelines best is not known before
// (simulator/README.md).
std::vector<std::string> Styles(const CompileOptions& options,
                                const Program& program) {
  if (program.stage == Stage::kGlobal && options.search_steps >= kStepsForAll) {
    return TpStyles(options, program.mesh);
  }
  return {options.tp_style};
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

// A local program before ops are fused, and what was said on the way to it.
struct Form {
  std::string name;  // how it differs from the plan alone, "" if it does not
  Program program;
  PassContext context;
};

// Schedules forms one after the other and keeps the fastest.
class FormSearch {
 public:
  FormSearch(const CompileOptions& options, const PassManagerOptions& manager,
             CompileResult* result)
      : options_(options), manager_(manager), result_(result) {}

  // Unless the same program was tried already. A form that was not asked for is
  // rejected where it cannot be scheduled.
  absl::Status Try(Form form, int search_steps) {
    PassContext own = form.context;
    Program program = form.program;
    if (options_.fuse) {
      ASYRA_RETURN_IF_ERROR(Run(program, FusePipeline(options_), own));
    }
    std::string text = ToString(program);
    if (std::find(seen_.begin(), seen_.end(), text) != seen_.end()) {
      return absl::OkStatus();
    }
    seen_.push_back(std::move(text));
    ScheduleOptions schedule = ScheduleOptionsOf(options_, manager_);
    schedule.search_steps = search_steps;
    absl::StatusOr<ScheduleResult> found = Schedule(program, schedule, own);
    if (!found.ok()) return Reject(form.name, found.status());
    ScheduleResult& scheduled = *found;
    // Thread blocks, copy engines and second streams gain more in some forms.
    ASYRA_RETURN_IF_ERROR(
        Run(scheduled.program, StreamsPipeline(options_), own));
    scheduled.optimized = Simulate(scheduled.program, *own.costs);
    bool better = true;
    if (tried_.empty()) {
      result_->partitioned = std::move(program);
      result_->schedule = std::move(scheduled);
    } else {
      better = Compare(std::move(scheduled), form.name);
    }
    if (better) {
      best_ = form.name;
      remarks_ = std::move(own.remarks);
    }
    tried_.push_back(std::move(form));
    return absl::OkStatus();
  }

  absl::Status Run(Program& program, std::string_view pipeline,
                   PassContext& context) {
    return RunPasses(program, pipeline, context, manager_, &result_->timings);
  }

  const std::vector<Form>& tried() const { return tried_; }
  const std::vector<std::string>& remarks() const { return remarks_; }

 private:
  // Only for what Schedule refuses: it takes more memory than there is, or is
  // not cut into as many tiles as were asked for. All else is a fault.
  absl::Status Reject(const std::string& form, const absl::Status& why) {
    if (form.empty() || !IsRefusal(why)) return why;
    result_->schedule->candidates.push_back(
        {.name = form, .rejected = std::string(MessageOf(why))});
    return absl::OkStatus();
  }

  // Takes over the other's program where that is faster; names of its
  // candidates say how it differs.
  bool Compare(ScheduleResult other, const std::string& name) {
    ScheduleResult* best = &*result_->schedule;
    bool better = other.optimized.makespan_us < best->optimized.makespan_us;
    if (better) std::swap(best->program, other.program);
    for (ScheduleChoice& choice : best->candidates) {
      if (better && choice.rejected.empty()) {
        choice.rejected = "slower than " + name;
      }
    }
    for (ScheduleChoice& choice : other.candidates) {
      if (!better && choice.rejected.empty()) {
        choice.rejected =
            "slower than " + (best_.empty() ? "what the plan gives" : best_);
      }
      choice.name += ", " + name;
      best->candidates.push_back(std::move(choice));
    }
    best->steps += other.steps;
    if (!better) return false;
    best->optimized = std::move(other.optimized);
    best->tiles = other.tiles;
    best->scheduler = std::move(other.scheduler);
    return true;
  }

  const CompileOptions& options_;
  const PassManagerOptions& manager_;
  CompileResult* result_;
  std::vector<std::string> seen_;  // texts
  std::vector<Form> tried_;
  std::string best_;  // its name
  std::vector<std::string> remarks_;
};

// Whether sums apart are to be compared with those in collectives. They are not
// where collectives keep to what the library does: copy engines gain by it.
bool ChoosesSums(const CompileOptions& options) {
  return options.sums == "auto" && !options.measured_only &&
         options.search_steps >= kStepsForAll;
}

// Schedules sums apart from the collectives that copy engines can carry, in the
// form that has most of them: another form may be best with sums inside. Of
// several the first, which costs least unscheduled.
absl::Status TrySumsApart(FormSearch& search, int search_steps) {
  std::string pipeline = fmt::format("{}{{copyable=true}}", kSumsPipeline);
  Form best;
  size_t most = 0;
  for (const Form& form : search.tried()) {
    Form apart = form;
    ASYRA_RETURN_IF_ERROR(search.Run(apart.program, pipeline, apart.context));
    size_t added = apart.program.ops.size() - form.program.ops.size();
    if (added <= most) continue;
    most = added;
    best = std::move(apart);
  }
  if (most == 0) return absl::OkStatus();
  best.name += best.name.empty() ? "sums apart" : ", sums apart";
  std::string name = best.name;
  return Annotate(search.Try(std::move(best), search_steps), name);
}

}  // namespace

std::vector<std::string> TpStyles(const CompileOptions& options,
                                  const Mesh& mesh) {
  AxisId tp = mesh.Find("tp");
  if (options.tp_style != "auto" || options.propagate || tp < 0 ||
      mesh.size(tp) < 2) {
    return {options.tp_style};
  }
  return {"auto", "sequence", "replicated"};
}

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
  // What is carried by copies is seldom measured so, as other numbers of thread
  // blocks are not (StreamsPipeline).
  schedule.copies = schedule.spare = !options.measured_only;
  schedule.search_steps = options.search_steps;
  schedule.memory_bytes =
      static_cast<int64_t>(options.memory_gib * (int64_t{1} << 30));
  schedule.manager = manager;
  return schedule;
}

absl::Status ScheduleBestStyle(const CompileOptions& options,
                               const PassManagerOptions& manager,
                               PassContext& context, CompileResult* result) {
  const Program& start = result->program;
  FormSearch search(options, manager, result);
  for (const std::string& style : Styles(options, start)) {
    Form form{.program = start, .context = context};
    if (!search.tried().empty()) form.name = "tp-style " + style;
    if (start.stage == Stage::kGlobal) {
      CompileOptions styled = options;
      styled.tp_style = style;
      ASYRA_RETURN_IF_ERROR(
          search.Run(form.program, ShardPipeline(styled), form.context));
    }
    if (options.sums == "apart") {
      ASYRA_RETURN_IF_ERROR(
          search.Run(form.program, kSumsPipeline, form.context));
    }
    ASYRA_RETURN_IF_ERROR(search.Try(std::move(form), options.search_steps));
  }
  if (ChoosesSums(options)) {
    ASYRA_RETURN_IF_ERROR(
        TrySumsApart(search, options.search_steps / kShareOfSums));
  }
  context.remarks = search.remarks();
  result->program = result->schedule->program;
  return absl::OkStatus();
}

}  // namespace asyra
