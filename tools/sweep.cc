#include "tools/sweep.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "ir/support/status.h"
#include "simulator/profile.h"

namespace asyra {
namespace {

constexpr size_t kMostPoints = 100000;
constexpr double kBytesPerGib = 1 << 30;

// A grid key is one of these, or has one of the prefixes.
struct IntKey {
  std::string_view name;
  int64_t CompileOptions::*field;
};
constexpr IntKey kIntKeys[] = {
    {"dp", &CompileOptions::dp},
    {"tp", &CompileOptions::tp},
    {"sp", &CompileOptions::sp},
    {"ep", &CompileOptions::ep},
    {"nodes", &CompileOptions::nodes},
    {"expert-capacity", &CompileOptions::expert_capacity},
};
struct TextKey {
  std::string_view name;
  std::string CompileOptions::*field;
};
constexpr TextKey kTextKeys[] = {
    {"shard", &CompileOptions::shard},
    {"tp-style", &CompileOptions::tp_style},
    {"ep-style", &CompileOptions::ep_style},
    {"scheduler", &CompileOptions::scheduler},
    {"sums", &CompileOptions::sums},
    {"machine", &CompileOptions::machine},
    {"passes", &CompileOptions::passes},
};
struct ListKey {
  std::string_view prefix;
  std::vector<std::string> CompileOptions::*field;
};
constexpr ListKey kListKeys[] = {
    {"dim.", &CompileOptions::dims},
    {"set.", &CompileOptions::set},
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
                   CompileOptions* options) {
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
    // A point's value is instead of that of the flag.
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
      const CompileOptions& options) {
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

 private:
  struct Slot {
    std::once_flag once;
    absl::StatusOr<RaisedModel> model = absl::UnknownError("not loaded");
  };
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Slot>> slots_;
};

absl::Status Evaluate(const CompileOptions& options, Models& models,
                      const SweepOptions& sweep, SweepPoint* point) {
  auto model = models.Get(options);
  if (!model->ok()) return model->status();
  CompileOptions compile = options;
  compile.measured_only = sweep.strict;
  ASYRA_ASSIGN_OR_RETURN(CompileResult result, Compile(compile, **model));
  if (!result.simulated.has_value()) {
    return Invalid("a program of stage {} is not simulated",
                   ToString(result.program.stage));
  }
  const SimResult& simulated = *result.simulated;
  if (sweep.strict) {
    ASYRA_RETURN_IF_ERROR(CheckMeasured(result.program, simulated.prices));
  }
  const Machine& machine = result.costs->machine();
  double gib =
      sweep.capacity_gib < 0 ? machine.gpu.hbm_gib : sweep.capacity_gib;
  point->devices = result.program.mesh.num_devices();
  point->makespan_us = simulated.makespan_us;
  point->lower_bound_us = simulated.lower_bound_us;
  point->bubble = simulated.bubble;
  point->exposed_comm_us = simulated.exposed_comm_us;
  point->mfu =
      ModelFlopUtilization(result.program, machine, simulated.makespan_us);
  point->peak_bytes =
      ReportMemory(result.program, simulated, machine).device_bytes;
  point->capacity_bytes = static_cast<int64_t>(gib * kBytesPerGib);
  point->fits =
      point->capacity_bytes == 0 || point->peak_bytes <= point->capacity_bytes;
  if (result.schedule.has_value()) point->tiles = result.schedule->tiles;
  return absl::OkStatus();
}

void MarkPareto(std::vector<SweepPoint>* points) {
  std::vector<SweepPoint*> order;
  for (SweepPoint& point : *points) {
    if (point.valid() && point.fits) order.push_back(&point);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const SweepPoint* a, const SweepPoint* b) {
                     return a->makespan_us != b->makespan_us
                                ? a->makespan_us < b->makespan_us
                                : a->peak_bytes < b->peak_bytes;
                   });
  // Of equals all are on the front.
  const SweepPoint* last = nullptr;
  for (SweepPoint* point : order) {
    bool equal = last != nullptr && point->makespan_us == last->makespan_us &&
                 point->peak_bytes == last->peak_bytes;
    point->pareto =
        last == nullptr || equal || point->peak_bytes < last->peak_bytes;
    if (point->pareto) last = point;
  }
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

absl::StatusOr<std::vector<SweepPoint>> Sweep(const CompileOptions& base,
                                              const std::vector<GridAxis>& grid,
                                              const SweepOptions& options) {
  std::vector<SweepPoint> points(1);
  std::vector<CompileOptions> compile = {base};
  for (const GridAxis& axis : grid) {
    if (points.size() * axis.values.size() > kMostPoints) {
      return Invalid("--grid: more than {} points", kMostPoints);
    }
    std::vector<SweepPoint> more;
    std::vector<CompileOptions> more_compile;
    for (size_t i = 0; i < points.size(); ++i) {
      for (const std::string& value : axis.values) {
        more.push_back(points[i]);
        more.back().values.push_back(value);
        more_compile.push_back(compile[i]);
        ASYRA_RETURN_IF_ERROR(Apply(axis.key, value, &more_compile.back()));
      }
    }
    points = std::move(more);
    compile = std::move(more_compile);
  }

  Models models;
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  size_t done = 0;
  auto work = [&] {
    for (size_t i = next++; i < points.size(); i = next++) {
      absl::Status status = Evaluate(compile[i], models, options, &points[i]);
      points[i].error = MessageOf(status);
      std::lock_guard<std::mutex> lock(mutex);
      ++done;
      if (options.progress) options.progress(done, points.size());
    }
  };
  size_t threads = options.threads > 0 ? options.threads
                                       : std::thread::hardware_concurrency();
  threads = std::clamp<size_t>(threads, 1, points.size());
  std::vector<std::thread> pool;
  for (size_t i = 1; i < threads; ++i) pool.emplace_back(work);
  work();
  for (std::thread& thread : pool) thread.join();
  MarkPareto(&points);
  return points;
}

}  // namespace asyra
