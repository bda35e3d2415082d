#include "tools/sweep.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "absl/algorithm/container.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "ir/support/status.h"
#include "simulator/library_memory.h"
#include "simulator/memory.h"
#include "simulator/profile.h"
#include "tools/mesh_advice.h"
#include "tools/neighbours.h"
#include "tools/step_shape.h"

namespace asyra {
namespace {

constexpr size_t kMostPoints = 100000;

// A grid key is one of these, or has one of the prefixes.
struct IntKey {
  std::string_view name;
  int64_t CompileFlags::*field;
};
constexpr IntKey kIntKeys[] = {
    {"dp", &CompileFlags::dp},
    {"tp", &CompileFlags::tp},
    {"sp", &CompileFlags::sp},
    {"ep", &CompileFlags::ep},
    {"nodes", &CompileFlags::nodes},
    {"expert-capacity", &CompileFlags::expert_capacity},
};
struct TextKey {
  std::string_view name;
  std::string CompileFlags::*field;
};
constexpr TextKey kTextKeys[] = {
    {"shard", &CompileFlags::shard},
    {"tp-strategy", &CompileFlags::tp_strategy},
    {"ep-strategy", &CompileFlags::ep_strategy},
    {"scheduler", &CompileFlags::scheduler},
    {"reduce-scatter", &CompileFlags::reduce_scatter},
    {"machine", &CompileFlags::machine},
    {"passes", &CompileFlags::passes},
};
struct ListKey {
  std::string_view prefix;
  std::vector<std::string> CompileFlags::*field;
};
constexpr ListKey kListKeys[] = {
    {"dim.", &CompileFlags::dims},
    {"set.", &CompileFlags::set},
};
constexpr std::string_view kTiles = "tiles";
constexpr std::string_view kMesh = "mesh";
constexpr std::string_view kGraph = "graph";  // 0 or 1

bool Parse(std::string_view text, int64_t* value) {
  const char* end = text.data() + text.size();
  auto [at, error] = std::from_chars(text.data(), end, *value);
  return error == std::errc() && at == end;
}

bool IsKnown(std::string_view key) {
  if (key == kTiles || key == kMesh || key == kGraph) return true;
  for (const IntKey& known : kIntKeys) {
    if (key == known.name) return true;
  }
  for (const TextKey& known : kTextKeys) {
    if (key == known.name) return true;
  }
  for (const ListKey& known : kListKeys) {
    if (key.substr(0, 4) == known.prefix && key.size() > 4) return true;
  }
  return false;
}

std::string KnownKeys() {
  std::string text = fmt::format("{}, {}, {}", kTiles, kMesh, kGraph);
  for (const IntKey& known : kIntKeys) text += fmt::format(", {}", known.name);
  for (const TextKey& known : kTextKeys) {
    text += fmt::format(", {}", known.name);
  }
  return text + ", dim.NAME, set.KEY";
}

absl::Status Apply(const std::string& key, const std::string& value,
                   CompileFlags* options) {
  int64_t number = 0;
  bool is_number = Parse(value, &number);
  auto wrong = [&] {
    return Invalid("--grid {}: '{}' is no integer", key, value);
  };
  if (key == kTiles) {
    if (!is_number || number > INT32_MAX) return wrong();
    options->tiles = static_cast<int>(number);
  }
  if (key == kMesh) options->mesh = value;
  if (key == kGraph) {
    if (value != "0" && value != "1") {
      return Invalid("--grid {}: '{}' is neither 0 nor 1", key, value);
    }
    options->graph = number == 1;
  }
  for (const IntKey& known : kIntKeys) {
    if (key != known.name) continue;
    if (!is_number) return wrong();
    options->*known.field = number;
  }
  for (const TextKey& known : kTextKeys) {
    if (key == known.name) options->*known.field = value;
  }
  for (const ListKey& known : kListKeys) {
    if (key.rfind(known.prefix, 0) != 0) continue;
    std::vector<std::string>& list = options->*known.field;
    std::string name = key.substr(known.prefix.size()) + "=";
    // A point's value replaces that of the flag.
    std::erase_if(list, [&](const std::string& item) {
      return item.rfind(name, 0) == 0;
    });
    list.push_back(name + value);
  }
  return absl::OkStatus();
}

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

  // Of the first that could be loaded.
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
          const Machine& machine, double capacity_gib, SweepPoint* point) {
  point->devices = program.mesh.num_devices();
  point->makespan_us = simulated.makespan_us;
  point->lower_bound_us = simulated.lower_bound_us;
  point->bubble = simulated.bubble;
  point->exposed_comm_us = simulated.exposed_comm_us;
  point->mfu = ModelFlopUtilization(program, machine, simulated.makespan_us);
  point->formula = FormulaShare(simulated);
  point->peak_bytes = ReportMemory(program, simulated, machine).device_bytes;
  point->capacity_bytes = CapacityBytes(capacity_gib, machine);
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
  point->step = StepShapeOf(result.raised, result.dim_names);
  if (result.partitioned.has_value()) {
    FillRedundancy(*result.partitioned, point);
  }
  auto undivided = absl::c_find_if(result.remarks, [](const std::string& line) {
    return line.starts_with("axis ");
  });
  if (undivided != result.remarks.end()) point->undivided = *undivided;
  const Machine& machine = result.costs->machine();
  Fill(result.program, *result.simulated, machine, options.capacity_gib, point);
  if (!result.schedule.has_value()) return absl::OkStatus();
  point->tiles = result.schedule->tiles;
  point->noise = result.noise;
  *found = FoundSchedule{
      std::move(compile),           machine,      std::move(result.program),
      *std::move(result.simulated), point->tiles, point->noise};
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
    Fill(from.program, faster->simulated, own.machine, own.options.capacity_gib,
         point);
    point->tiles = from.tiles;
    point->noise = std::max(point->noise, from.noise);
    size_t other = others[faster->index];
    point->found_for = (*points)[other].values;
    point->found_unchanged = other >= first_unchanged;
  });
}

bool AreTied(const SweepPoint& a, const SweepPoint& b) {
  return IsTie(a.makespan_us, a.noise, b.makespan_us, b.noise);
}

bool IsFaster(const SweepPoint& a, const SweepPoint& b) {
  return a.makespan_us < b.makespan_us && !AreTied(a, b);
}

// Whether `a` dominates `b`: no worse in time and memory, and better in one.
bool Beats(const SweepPoint& a, const SweepPoint& b) {
  return a.peak_bytes <= b.peak_bytes && !IsFaster(b, a) &&
         (a.peak_bytes < b.peak_bytes || IsFaster(a, b));
}

// Whether points that differ in it do different work.
bool TellsWorkApart(std::string_view key) {
  return key == "expert-capacity" || key.starts_with("dim.");
}

// The same, or another machine.
bool TellsKindsApart(std::string_view key) {
  return TellsWorkApart(key) || key == "machine" || key.starts_with("set.");
}

// Points that fit, by the values of those axes.
std::vector<std::vector<SweepPoint*>> Grouped(const std::vector<GridAxis>& grid,
                                              bool (*apart)(std::string_view),
                                              std::vector<SweepPoint>* points) {
  std::map<std::vector<std::string>, std::vector<SweepPoint*>> kinds;
  for (SweepPoint& point : *points) {
    if (!point.valid() || !point.fits) continue;
    std::vector<std::string> kind;
    for (size_t i = 0; i < grid.size(); ++i) {
      if (apart(grid[i].key)) kind.push_back(point.values[i]);
    }
    kinds[kind].push_back(&point);
  }
  std::vector<std::vector<SweepPoint*>> groups;
  for (auto& [kind, list] : kinds) groups.push_back(std::move(list));
  return groups;
}

void MarkPareto(const std::vector<GridAxis>& grid,
                std::vector<SweepPoint>* points) {
  for (const auto& group : Grouped(grid, TellsKindsApart, points)) {
    for (SweepPoint* point : group) {
      point->pareto = absl::c_none_of(group, [&](const SweepPoint* other) {
        return Beats(*other, *point);
      });
    }
  }
}

void MarkRanks(const std::vector<GridAxis>& grid,
               std::vector<SweepPoint>* points) {
  for (const auto& group : Grouped(grid, TellsWorkApart, points)) {
    for (SweepPoint* point : group) {
      point->rank = 1;
      for (const SweepPoint* other : group) {
        point->rank += IsFaster(*other, *point) ? 1 : 0;
        point->tie |= other != point && AreTied(*other, *point);
      }
    }
  }
}

// A wrong mesh is the point's error; a program file's own mesh is not known
// yet.
bool HasOtherRanks(const CompileFlags& options) {
  absl::StatusOr<Mesh> mesh = MeshOf(options);
  if (!mesh.ok()) return false;
  if (mesh->num_axes() == 0 && options.model.ends_with(".asyra")) return false;
  return !CheckRanks(options, *mesh).ok();
}

// Combinations of values, and how each is compiled.
struct Grid {
  std::vector<SweepPoint> points;
  std::vector<CompileFlags> compile;
};

absl::StatusOr<Grid> Combine(const CompileFlags& base,
                             const std::vector<GridAxis>& grid) {
  Grid all{std::vector<SweepPoint>(1), {base}};
  for (const GridAxis& axis : grid) {
    if (all.points.size() * axis.values.size() > kMostPoints) {
      return Invalid("--grid: more than {} points", kMostPoints);
    }
    Grid more;
    for (size_t i = 0; i < all.points.size(); ++i) {
      for (const std::string& value : axis.values) {
        more.points.push_back(all.points[i]);
        more.points.back().values.push_back(value);
        more.compile.push_back(all.compile[i]);
        ASYRA_RETURN_IF_ERROR(Apply(axis.key, value, &more.compile.back()));
      }
    }
    all = std::move(more);
  }
  return all;
}

// Adds each point's machine without --set once, so that points may try its
// schedule: a better number then never makes a step slower, even if the
// unchanged number is not in the grid.
void AddUnchanged(const std::vector<GridAxis>& grid, Grid* all) {
  std::set<std::vector<std::string>> seen;
  size_t count = all->points.size();
  for (size_t i = 0; i < count; ++i) {
    if (all->compile[i].set.empty()) continue;
    SweepPoint point{.values = all->points[i].values};
    for (size_t k = 0; k < grid.size(); ++k) {
      if (grid[k].key.starts_with("set.")) point.values[k].clear();
    }
    if (!seen.insert(point.values).second) continue;
    all->points.push_back(std::move(point));
    all->compile.push_back(all->compile[i]);
    all->compile.back().set.clear();
  }
}

// How many were left out.
size_t KeepRanks(Grid* grid) {
  Grid kept;
  for (size_t i = 0; i < grid->points.size(); ++i) {
    if (HasOtherRanks(grid->compile[i])) continue;
    kept.points.push_back(std::move(grid->points[i]));
    kept.compile.push_back(std::move(grid->compile[i]));
  }
  size_t skipped = grid->points.size() - kept.points.size();
  *grid = std::move(kept);
  return skipped;
}

}  // namespace

absl::StatusOr<std::vector<GridAxis>> ParseGrid(
    const std::vector<std::string>& grid) {
  std::vector<GridAxis> axes;
  for (const std::string& text : grid) {
    size_t equal = text.find('=');
    GridAxis axis{text.substr(0, equal), {}};
    if (equal == std::string::npos || equal == 0 || equal + 1 == text.size()) {
      return Invalid("--grid {}: expected KEY=VALUE,VALUE,...", text);
    }
    if (!IsKnown(axis.key)) {
      return Invalid("--grid {}: unknown key {}; there are {}", text, axis.key,
                     KnownKeys());
    }
    std::string values = text.substr(equal + 1);
    char separator = values.find(';') == std::string::npos ? ',' : ';';
    axis.values = absl::StrSplit(values, separator);
    std::set<std::string> seen;
    for (const std::string& value : axis.values) {
      if (value.empty()) return Invalid("--grid {}: an empty value", text);
      if (!seen.insert(value).second) {
        return Invalid("--grid {}: the value {} is given twice", text, value);
      }
    }
    for (const GridAxis& other : axes) {
      if (other.key == axis.key) {
        return Invalid("--grid {}: the key {} is given twice", text, axis.key);
      }
    }
    axes.push_back(std::move(axis));
  }
  return axes;
}

absl::StatusOr<SweepResult> Sweep(const CompileFlags& base,
                                  const std::vector<GridAxis>& grid,
                                  const SweepOptions& options) {
  ASYRA_ASSIGN_OR_RETURN(Grid all, Combine(base, grid));
  SweepResult result;
  result.skipped = KeepRanks(&all);
  size_t count = all.points.size();
  if (count == 0) {
    return Invalid("--ranks is {}: none of {} combinations has as many devices",
                   *base.ranks, result.skipped);
  }
  AddUnchanged(grid, &all);
  result.points = std::move(all.points);
  std::vector<SweepPoint>& points = result.points;
  Models models;
  std::mutex mutex;
  size_t done = 0;
  std::vector<std::optional<FoundSchedule>> found(points.size());
  ForEach(points.size(), options.threads, [&](size_t i) {
    absl::Status status =
        Evaluate(all.compile[i], models, options, &points[i], &found[i]);
    points[i].error = MessageOf(status);
    std::lock_guard<std::mutex> lock(mutex);
    ++done;
    if (options.progress) options.progress(done, points.size());
  });
  result.lacking_weights = models.LackingWeights();
  TryOthers(grid, options, found, count, &points);
  points.resize(count);
  MarkPareto(grid, &points);
  MarkRanks(grid, &points);
  return result;
}

}  // namespace asyra
