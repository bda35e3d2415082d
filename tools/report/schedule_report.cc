#include "tools/report/schedule_report.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "fmt/format.h"
#include "ir/support/units.h"
#include "passes/analysis/step_shape.h"
#include "simulator/replay/library_memory.h"
#include "simulator/report/report.h"

namespace asyra {
namespace {

double ExposedOver(const std::string& axes, const Profile& profile) {
  for (const ProfileExposure& exposure : profile.exposed) {
    if (exposure.axes == axes) return exposure.exposed_us;
  }
  return 0;
}

// A number of both steps.
struct Row {
  std::string name;
  std::function<double(const Profile&)> value;
  std::string (*show)(double) = nullptr;  // null: a time
};

std::string Percents(double percent) {
  return fmt::format("{:.1f} %", percent);
}
std::string Count(double count) { return fmt::format("{:.0f}", count); }
std::string Bytes(double bytes) { return BytesText(bytes); }

void AddMemoryRows(std::vector<Row>* rows) {
  auto add = [&](const char* name, auto bytes) {
    rows->push_back(
        {name, [=](const Profile& p) { return static_cast<double>(bytes(p)); },
         Bytes});
  };
  add("peak of live values", [](const Profile& p) { return p.peak_bytes; });
  add("memory of the device", [](const Profile& p) { return p.device_bytes; });
  add("  weights and state", [](const Profile& p) { return p.weight_bytes; });
  add("  other values",
      [](const Profile& p) { return p.arena_bytes - p.weight_bytes; });
  add("  libraries and kernels",
      [](const Profile& p) { return p.device_bytes - p.arena_bytes; });
}

std::vector<Row> RowsOf(const Steps& steps, const StepShape& shape) {
  std::vector<Row> rows = {
      {"makespan", [](const Profile& p) { return p.makespan_us; }},
      {"lower bound", [](const Profile& p) { return p.lower_bound_us; }},
  };
  if (shape.batch > 0) {
    rows.push_back({fmt::format("{} a second", shape.unit()),
                    [shape](const Profile& p) {
                      return TokensPerSecond(shape, p.makespan_us);
                    },
                    Count});
  }
  rows.push_back(
      {"bubble", [](const Profile& p) { return 100 * p.bubble; }, Percents});
  rows.push_back({"exposed communication",
                  [](const Profile& p) { return p.exposed_comm_us; }});
  // Scheduling adds no axes.
  const Profile& first = steps.before ? *steps.before : steps.after;
  for (const ProfileExposure& exposure : first.exposed) {
    rows.push_back(
        {"  over " + exposure.axes, [axes = exposure.axes](const Profile& p) {
           return ExposedOver(axes, p);
         }});
  }
  AddMemoryRows(&rows);
  auto count = [](auto n) { return static_cast<double>(n); };
  rows.push_back({"kernels",
                  [=](const Profile& p) { return count(p.ops.size()); },
                  Count});
  rows.push_back({"collectives",
                  [=](const Profile& p) { return count(p.collectives); },
                  Count});
  return rows;
}

// "+1.2 %"; no sign where nothing shows.
std::string Change(double before, double after) {
  double percent = 100 * (after / before - 1);
  if (std::abs(percent) < 0.05) return "0.0 %";
  return fmt::format("{:+.1f} %", percent);
}

std::string Table(const Steps& steps, const StepShape& shape) {
  std::string text = steps.before
                         ? fmt::format("  {:<28} {:>12} {:>12} {:>9}\n", "",
                                       "baseline", "optimized", "change")
                         : "";
  TimeColumn times(std::max(steps.after.makespan_us,
                            steps.before ? steps.before->makespan_us : 0));
  for (const Row& row : RowsOf(steps, shape)) {
    auto show = [&](double value) {
      return row.show != nullptr ? row.show(value) : times.Text(value);
    };
    double after = row.value(steps.after);
    if (!steps.before) {
      text += fmt::format("  {:<28} {:>12}\n", row.name, show(after));
      continue;
    }
    double before = row.value(*steps.before);
    text += fmt::format("  {:<28} {:>12} {:>12}", row.name, show(before),
                        show(after));
    if (before != 0) text += fmt::format(" {:>9}", Change(before, after));
    text += "\n";
  }
  return text;
}

std::string SchedulesText(const ScheduleResult& schedule) {
  constexpr size_t kWidest = 90;
  size_t width = 40;
  for (const ScheduleChoice& choice : schedule.candidates) {
    width = std::max(width, std::min(choice.name.size(), kWidest));
  }
  double largest_us = 0;
  for (const ScheduleChoice& choice : schedule.candidates) {
    largest_us = std::max(largest_us, choice.makespan_us);
  }
  TimeColumn times(largest_us);
  std::string text = " schedules\n";
  for (const ScheduleChoice& choice : schedule.candidates) {
    // Candidates that passes refused have no time.
    std::string us =
        choice.makespan_us > 0 ? times.Text(choice.makespan_us) : "-";
    text += fmt::format(
        "  {:<{}} {:>10}  {}\n", choice.name, width, us,
        choice.rejected.empty() ? "chosen" : "rejected: " + choice.rejected);
  }
  return text;
}

bool HasOp(const Program& program, bool (*is)(const Op&)) {
  return std::any_of(program.ops.begin(), program.ops.end(), is);
}

// Tells what the name of a schedule says and its program does not have: merging
// undoes tiles, and margins that no collective runs beside are taken away.
std::string UndoneText(const std::string& name, int tiles,
                       const Program& program) {
  std::string text;
  if (tiles > 1 &&
      !HasOp(program, [](const Op& op) { return op.def->is_tile; })) {
    text += "; all tiles are merged again";
  }
  if (name.find("SM margin") != std::string::npos &&
      !HasOp(program, [](const Op& op) {
        return op.attrs.Find("sm_margin") != nullptr;
      })) {
    text += "; no matmul keeps the margin";
  }
  return text;
}

std::string ChosenText(const CompiledModel& result) {
  const ScheduleResult& schedule = *result.schedule;
  for (const ScheduleChoice& choice : schedule.candidates) {
    if (!choice.rejected.empty()) continue;
    return fmt::format(" schedule: {}, of {} tried (--verbose lists them){}\n",
                       choice.name, schedule.candidates.size(),
                       UndoneText(choice.name, schedule.tiles, result.program));
  }
  return "";
}

nlohmann::json StepJson(const Profile& profile, const StepShape& shape) {
  nlohmann::json json = {
      {"makespan_us", profile.makespan_us},
      {"lower_bound_us", profile.lower_bound_us},
      {"bubble", profile.bubble},
      {"exposed_comm_us", profile.exposed_comm_us},
      {"peak_bytes", profile.peak_bytes},
      {"device_bytes", profile.device_bytes},
      {"ops", profile.ops.size()},
      {"collectives", profile.collectives},
      {"tokens_per_s", TokensPerSecond(shape, profile.makespan_us)},
      {"exposed_us", nlohmann::json::object()}};
  for (const ProfileExposure& exposure : profile.exposed) {
    json["exposed_us"][exposure.axes] = exposure.exposed_us;
  }
  return json;
}

}  // namespace

Steps StepsOf(const CompileFlags& options, const CompiledModel& result) {
  Steps steps;
  StepShape step = StepShapeOf(result.raised, result.dim_names);
  if (result.schedule.has_value()) {
    steps.before = MakeProfile(
        *result.partitioned, result.schedule->baseline, *result.costs,
        {.model = options.model + ", partitioned", .step = step});
  }
  const Machine& machine = result.costs->machine();
  // Only a requested memory limit counts as a reason for exposed communication.
  int64_t capacity =
      CapacityBytes(std::max(0.0, options.capacity_gib), machine);
  steps.after = MakeProfile(
      result.program, *result.simulated, *result.costs,
      {.model = options.model,
       .step = step,
       .noise = result.noise,
       .capacity_gib = options.capacity_gib,
       .budget_bytes = ValueBytes(capacity, result.program, machine)});
  return steps;
}

std::string ScheduleText(const CompiledModel& result, const Steps& steps,
                         bool verbose, size_t few_rows) {
  std::string text;
  if (verbose) {
    text += " simulated step\n" +
            Table(steps, StepShapeOf(result.raised, result.dim_names));
  }
  if (result.schedule.has_value()) {
    text += verbose ? SchedulesText(*result.schedule) : ChosenText(result);
  }
  constexpr size_t kManyRows = 10;
  std::string exposure =
      ExposureReport(steps.after, verbose ? kManyRows : few_rows);
  return exposure.empty() ? text : text + " " + exposure;
}

std::string AblationText(const std::vector<AblationRow>& rows) {
  std::string text =
      fmt::format(" ablation{:>29} {:>9} {:>12} {:>12} {:>8}\n", "makespan",
                  "bubble %", "exposed", "device", "kernels");
  double largest_us = 0;
  for (const AblationRow& row : rows) {
    largest_us = std::max(largest_us, row.result.makespan_us);
  }
  TimeColumn times(largest_us);
  for (const AblationRow& row : rows) {
    const SimResult& r = row.result;
    text += fmt::format("  {:<23} {:>12} {:>9.1f} {:>12} {:>12} {:>8}\n",
                        row.name, times.Text(r.makespan_us), 100 * r.bubble,
                        times.Text(r.exposed_comm_us),
                        BytesText(row.device_bytes), r.ops);
  }
  return text;
}

nlohmann::json AblationJson(const std::vector<AblationRow>& rows) {
  nlohmann::json json = nlohmann::json::array();
  for (const AblationRow& row : rows) {
    json.push_back({{"name", row.name},
                    {"makespan_us", row.result.makespan_us},
                    {"bubble", row.result.bubble},
                    {"exposed_comm_us", row.result.exposed_comm_us},
                    {"peak_bytes", row.result.peak_bytes},
                    {"device_bytes", row.device_bytes},
                    {"ops", row.result.ops}});
  }
  return json;
}

void AddScheduleJson(const CompiledModel& result, const Steps& steps,
                     nlohmann::json* json) {
  StepShape shape = StepShapeOf(result.raised, result.dim_names);
  (*json)["optimized"] = StepJson(steps.after, shape);
  (*json)["lower_bound_us"] = steps.after.lower_bound_us;
  (*json)["exposed"] = nlohmann::json::array();
  for (const ExposedGroup& group : ExposedGroups(steps.after)) {
    (*json)["exposed"].push_back({{"name", group.name},
                                  {"op", group.op},
                                  {"axes", group.axes},
                                  {"count", group.count},
                                  {"us", group.us},
                                  {"why", group.why}});
  }
  if (!result.schedule.has_value()) return;
  const ScheduleResult& schedule = *result.schedule;
  (*json)["baseline"] = StepJson(*steps.before, shape);
  (*json)["tiles"] = schedule.tiles;
  (*json)["scheduler"] = schedule.scheduler;
  (*json)["search_steps"] = schedule.steps;
  (*json)["noise"] = result.noise;
  (*json)["rejected"] = nlohmann::json::array();
  for (const ScheduleChoice& choice : schedule.candidates) {
    if (choice.rejected.empty()) {
      (*json)["schedule"] = choice.name;
    } else {
      nlohmann::json rejected = {{"schedule", choice.name},
                                 {"why", choice.rejected}};
      // Candidates that passes refused were not simulated.
      if (choice.makespan_us > 0) {
        rejected["makespan_us"] = choice.makespan_us;
        rejected["device_bytes"] = choice.device_bytes;
      }
      (*json)["rejected"].push_back(std::move(rejected));
    }
  }
}

}  // namespace asyra
