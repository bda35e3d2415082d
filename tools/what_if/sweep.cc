#include "tools/what_if/sweep.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>

#include "absl/algorithm/container.h"
#include "absl/strings/str_join.h"
#include "ir/support/status.h"
#include "passes/analysis/step_shape.h"
#include "passes/search/neighbours.h"
#include "passes/train/step_phase.h"
#include "passes/training_mfu.h"
#include "simulator/replay/library_memory.h"
#include "simulator/replay/memory.h"
#include "simulator/report/profile.h"
#include "tools/report/mesh_advice.h"
#include "tools/report/train_report.h"
#include "tools/what_if/sweep_marks.h"

namespace asyra {
namespace {

// Models by what distinguishes them, each loaded once, by the first thread
// that needs it.
class Models {
 public:
  std::shared_ptr<const absl::StatusOr<RaisedModel>> Get(
      const CompileFlags& options) {
    std::string key =
        fmt::format("{}\n{}\n{}", absl::StrJoin(options.dims, "\n"),
                    options.expert_capacity, options.passes);
    std::shared_ptr<Slot> slot;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      std::shared_ptr<Slot>& entry = slots_[key];
      if (entry == nullptr) entry = std::make_shared<Slot>();
      slot = entry;
    }
    std::call_once(slot->once, [&] { slot->model = LoadRaised(options); });
    return {slot, &slot->model};
  }

  // Returns those of the first model that could be loaded.
  std::vector<std::string> LackingWeights() {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [key, slot] : slots_) {
      if (slot->model.ok()) return slot->model->lacking_weights;
    }
    return {};
  }

 private:
  struct Slot {
    std::once_flag once;
    absl::StatusOr<RaisedModel> model = absl::UnknownError("not loaded");
  };
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Slot>> slots_;
};

// The share of the makespan of critical-path ops with costs by formula.
double FormulaShare(const SimResult& simulated) {
  double us = 0;
  for (int op : simulated.critical_path) {
    if (simulated.op_costs[op].source != OpCost::kFormula) continue;
    us += simulated.spans[op].end_us - simulated.spans[op].start_us;
  }
  return simulated.makespan_us > 0 ? us / simulated.makespan_us : 0;
}

void Fill(const Program& program, const SimResult& simulated,
          const Machine& machine, int64_t capacity_bytes, SweepPoint* point) {
  point->devices = program.mesh.num_devices();
  point->makespan_us = simulated.makespan_us;
  point->lower_bound_us = simulated.lower_bound_us;
  point->bubble = simulated.bubble;
  point->exposed_comm_us = simulated.exposed_comm_us;
  point->training = !PhasesOf(program).empty();
  point->mfu =
      point->training
          ? TrainingMfu(program, machine, simulated.makespan_us)
          : ModelFlopUtilization(program, machine, simulated.makespan_us);
  point->formula = FormulaShare(simulated);
  point->peak_bytes = ReportMemory(program, simulated, machine).device_bytes;
  point->capacity_bytes = capacity_bytes;
  point->fits =
      point->capacity_bytes == 0 || point->peak_bytes <= point->capacity_bytes;
}

void FillRedundancy(const Program& partitioned, SweepPoint* point) {
  for (Redundancy& redundancy : RedundancyOf(partitioned)) {
    if (redundancy.share <= point->redundant) continue;
    point->redundant = redundancy.share;
    point->redundant_axis = std::move(redundancy.axis);
    point->redundant_ops = std::move(redundancy.ops);
  }
}

// `found` becomes the schedule that other points may try, if one was searched.
absl::Status Evaluate(const CompileFlags& options, Models& models,
                      const SweepOptions& sweep, SweepPoint* point,
                      std::optional<FoundSchedule>* found) {
  auto model = models.Get(options);
  if (!model->ok()) return model->status();
  CompileFlags compile = options;
  compile.measured_only = sweep.strict;
  compile.allow_misfit = true;  // reported with the point's numbers
  // Schedules of others are tried at the end (TryOthers).
  ASYRA_ASSIGN_OR_RETURN(CompiledModel result, CompileAlone(compile, **model));
  if (!result.simulated.has_value()) {
    return Invalid("a program of stage {} is not simulated",
                   ToString(result.program.stage));
  }
  if (sweep.strict) {
    ASYRA_RETURN_IF_ERROR(
        CheckMeasured(result.program, result.simulated->op_costs));
  }
  point->estimated = compile.estimate;
  point->step = StepShapeOf(result.raised, result.dim_names);
  if (result.partitioned.has_value()) {
    FillRedundancy(*result.partitioned, point);
  }
  auto undivided = absl::c_find_if(result.remarks, [](const std::string& line) {
    return line.starts_with("axis ");
  });
  if (undivided != result.remarks.end()) point->undivided = *undivided;
  const Machine& machine = result.costs->machine();
  ASYRA_ASSIGN_OR_RETURN(CompileOptions compiled_with, OptionsOf(compile));
  ReplayRules rules = RulesOf(compiled_with, machine);
  Fill(result.program, *result.simulated, machine, rules.capacity_bytes, point);
  if (!result.schedule.has_value()) return absl::OkStatus();
  point->tiles = result.schedule->tiles;
  point->noise = result.noise;
  *found = FoundSchedule{rules,
                         machine,
                         std::move(result.program),
                         *std::move(result.simulated),
                         point->tiles,
                         point->noise};
  return absl::OkStatus();
}

// Runs `task` for 0 to `count` - 1.
void ForEach(size_t count, int threads,
             const std::function<void(size_t)>& task) {
  std::atomic<size_t> next = 0;
  auto work = [&] {
    for (size_t i = next++; i < count; i = next++) task(i);
  };
  size_t most = threads > 0 ? threads : std::thread::hardware_concurrency();
  std::vector<std::thread> pool;
  for (size_t i = 1; i < std::min(most, count); ++i) pool.emplace_back(work);
  work();
  for (std::thread& thread : pool) thread.join();
}

// Values of the axes that are no numbers of the machine: points that have them
// in common can run each other's programs.
std::string ShapeOf(const std::vector<GridAxis>& grid,
                    const SweepPoint& point) {
  std::string shape;
  for (size_t i = 0; i < grid.size(); ++i) {
    const std::string& key = grid[i].key;
    if (key == "machine" || key == "nodes" || key.starts_with("set.")) continue;
    shape += point.values[i] + "\n";
  }
  return shape;
}

// Limit of other points whose programs a point tries, nearest in the grid
// first: no more than the shortest search simulates.
constexpr std::ptrdiff_t kMostOthers = 200;

// The result of a search depends on luck, so points also try schedules found
// for others: a limited number of points, and all machines without --set, which
// are those from `first_unchanged` on.
void TryOthers(const std::vector<GridAxis>& grid, const SweepOptions& options,
               const std::vector<std::optional<FoundSchedule>>& found,
               size_t first_unchanged, std::vector<SweepPoint>* points) {
  std::map<std::string, std::vector<size_t>> groups;
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i].has_value()) groups[ShapeOf(grid, (*points)[i])].push_back(i);
  }
  ForEach(first_unchanged, options.threads, [&](size_t i) {
    if (!found[i].has_value()) return;
    SweepPoint* point = &(*points)[i];
    std::vector<size_t> others = groups.at(ShapeOf(grid, *point));
    std::erase(others, i);
    auto unchanged =
        std::lower_bound(others.begin(), others.end(), first_unchanged);
    std::stable_sort(others.begin(), unchanged, [&](size_t a, size_t b) {
      return std::max(a, i) - std::min(a, i) < std::max(b, i) - std::min(b, i);
    });
    if (std::distance(others.begin(), unchanged) > kMostOthers) {
      others.erase(others.begin() + kMostOthers, unchanged);
    }
    std::vector<const FoundSchedule*> schedules;
    for (size_t other : others) schedules.push_back(&*found[other]);
    const FoundSchedule& own = *found[i];
    std::optional<FasterSchedule> faster = FastestOf(schedules, own);
    if (!faster.has_value()) return;
    const FoundSchedule& from = *schedules[faster->index];
    Fill(from.program, faster->simulated, own.machine, own.rules.capacity_bytes,
         point);
    point->tiles = from.tiles;
    point->noise = std::max(point->noise, from.noise);
    size_t other = others[faster->index];
    point->found_for = (*points)[other].values;
    point->found_unchanged = other >= first_unchanged;
  });
}

}  // namespace

absl::StatusOr<SweepResult> Sweep(const CompileFlags& base,
                                  const std::vector<GridAxis>& grid,
                                  const SweepOptions& options) {
  ASYRA_ASSIGN_OR_RETURN(GridPoints all, Combine(base, grid));
  SweepResult result;
  result.skipped = KeepRanks(&all);
  size_t count = all.values.size();
  if (count == 0) {
    return Invalid("--ranks is {}: none of {} combinations has as many devices",
                   *base.ranks, result.skipped);
  }
  AddUnchanged(grid, &all);
  std::vector<SweepPoint>& points = result.points;
  for (std::vector<std::string>& values : all.values) {
    points.push_back({.values = std::move(values)});
  }
  Models models;
  std::mutex mutex;
  size_t done = 0;
  std::vector<std::optional<FoundSchedule>> found(points.size());
  size_t tasks = points.size();
  if (options.progress) options.progress(0, tasks);
  auto evaluate = [&](size_t i, const CompileFlags& compile) {
    SweepPoint point{.values = points[i].values};
    absl::Status status = Evaluate(compile, models, options, &point, &found[i]);
    point.error = MessageOf(status);
    std::lock_guard<std::mutex> lock(mutex);
    points[i] = std::move(point);
    ++done;
    if (i < count && options.finished) options.finished(points[i]);
    if (options.progress) options.progress(done, tasks);
  };
  std::vector<size_t> searched(points.size());
  std::iota(searched.begin(), searched.end(), size_t{0});
  if (options.search_best > 0) {
    ForEach(points.size(), options.threads, [&](size_t i) {
      CompileFlags compile = all.compile[i];
      compile.estimate = true;
      evaluate(i, compile);
    });
    searched.clear();
    for (SweepPoint* point : Promising(grid, options.search_best, &points)) {
      searched.push_back(point - points.data());
    }
    tasks += searched.size();
  }
  ForEach(searched.size(), options.threads,
          [&](size_t i) { evaluate(searched[i], all.compile[searched[i]]); });
  result.lacking_weights = models.LackingWeights();
  TryOthers(grid, options, found, count, &points);
  points.resize(count);
  MarkPareto(grid, &points);
  MarkRanks(grid, &points);
  return result;
}

}  // namespace asyra
