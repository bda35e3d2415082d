#include "tools/schedule_report.h"

#include <functional>
#include <nlohmann/json.hpp>

#include "fmt/format.h"
#include "simulator/report.h"

namespace asyra {
namespace {

constexpr double kGiB = 1 << 30;

double ExposedOver(const std::string& axes, const Profile& profile) {
  for (const ProfileExposure& exposure : profile.exposed) {
    if (exposure.axes == axes) return exposure.exposed_us;
  }
  return 0;
}

// A number of both steps; `digits` behind the point.
struct Row {
  std::string name;
  std::function<double(const Profile&)> value;
  int digits = 1;
};

std::vector<Row> RowsOf(const Steps& steps) {
  std::vector<Row> rows = {
      {"makespan us", [](const Profile& p) { return p.makespan_us; }},
      {"lower bound us", [](const Profile& p) { return p.lower_bound_us; }},
      {"bubble %", [](const Profile& p) { return 100 * p.bubble; }},
      {"exposed communication us",
       [](const Profile& p) { return p.exposed_comm_us; }},
  };
  // Scheduling adds no axes.
  const Profile& first = steps.before ? *steps.before : steps.after;
  for (const ProfileExposure& exposure : first.exposed) {
    rows.push_back(
        {"  over " + exposure.axes, [axes = exposure.axes](const Profile& p) {
           return ExposedOver(axes, p);
         }});
  }
  auto gib = [](int64_t bytes) { return static_cast<double>(bytes) / kGiB; };
  auto count = [](auto n) { return static_cast<double>(n); };
  rows.push_back({"peak of live values GiB",
                  [=](const Profile& p) { return gib(p.peak_bytes); }, 3});
  rows.push_back({"memory of the device GiB",
                  [=](const Profile& p) { return gib(p.device_bytes); }, 3});
  rows.push_back(
      {"kernels", [=](const Profile& p) { return count(p.ops.size()); }, 0});
  rows.push_back({"collectives",
                  [=](const Profile& p) { return count(p.collectives); }, 0});
  return rows;
}

std::string Table(const Steps& steps) {
  std::string text = steps.before
                         ? fmt::format("  {:<28} {:>12} {:>12} {:>9}\n", "",
                                       "baseline", "optimized", "change")
                         : "";
  for (const Row& row : RowsOf(steps)) {
    double after = row.value(steps.after);
    if (!steps.before) {
      text += fmt::format("  {:<28} {:>12.{}f}\n", row.name, after, row.digits);
      continue;
    }
    double before = row.value(*steps.before);
    text += fmt::format("  {:<28} {:>12.{}f} {:>12.{}f}", row.name, before,
                        row.digits, after, row.digits);
    if (before != 0) {
      text += fmt::format(" {:>+7.1f} %", 100 * (after / before - 1));
    }
    text += "\n";
  }
  return text;
}

nlohmann::json StepJson(const Profile& profile) {
  nlohmann::json json = {{"makespan_us", profile.makespan_us},
                         {"lower_bound_us", profile.lower_bound_us},
                         {"bubble", profile.bubble},
                         {"exposed_comm_us", profile.exposed_comm_us},
                         {"peak_bytes", profile.peak_bytes},
                         {"device_bytes", profile.device_bytes},
                         {"ops", profile.ops.size()},
                         {"collectives", profile.collectives},
                         {"exposed_us", nlohmann::json::object()}};
  for (const ProfileExposure& exposure : profile.exposed) {
    json["exposed_us"][exposure.axes] = exposure.exposed_us;
  }
  return json;
}

}  // namespace

Steps StepsOf(const CompileOptions& options, const CompileResult& result) {
  Steps steps;
  if (result.schedule.has_value()) {
    steps.before =
        MakeProfile(*result.partitioned, result.schedule->baseline,
                    *result.costs, {.model = options.model + ", partitioned"});
  }
  steps.after = MakeProfile(
      result.program, *result.simulated, *result.costs,
      {.model = options.model,
       .budget_bytes = static_cast<int64_t>(options.memory_gib * kGiB)});
  return steps;
}

std::string ScheduleText(const CompileResult& result, const Steps& steps) {
  std::string text = Table(steps), exposure = ExposureReport(steps.after);
  if (!exposure.empty()) text += " " + exposure;
  if (!result.schedule.has_value()) return text;
  text += " schedules\n";
  for (const ScheduleChoice& choice : result.schedule->candidates) {
    // What the passes refused has no time.
    std::string us = choice.makespan_us > 0
                         ? fmt::format("{:.1f} us", choice.makespan_us)
                         : "-";
    text += fmt::format(
        "  {:<40} {:>15}  {}\n", choice.name, us,
        choice.rejected.empty() ? "chosen" : "rejected: " + choice.rejected);
  }
  return text;
}

std::string AblationText(const std::vector<AblationRow>& rows) {
  std::string text =
      fmt::format(" ablation{:>29} {:>9} {:>12} {:>9} {:>8}\n", "makespan us",
                  "bubble %", "exposed us", "peak GiB", "kernels");
  for (const AblationRow& row : rows) {
    const SimResult& r = row.result;
    text +=
        fmt::format("  {:<23} {:>12.1f} {:>9.1f} {:>12.1f} {:>9.3f} {:>8}\n",
                    row.name, r.makespan_us, 100 * r.bubble, r.exposed_comm_us,
                    static_cast<double>(r.peak_bytes) / kGiB, r.ops);
  }
  return text;
}

void AddScheduleJson(const CompileResult& result, const Steps& steps,
                     nlohmann::json* json) {
  (*json)["optimized"] = StepJson(steps.after);
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
  (*json)["baseline"] = StepJson(*steps.before);
  (*json)["tiles"] = schedule.tiles;
  (*json)["scheduler"] = schedule.scheduler;
  (*json)["search_steps"] = schedule.steps;
  (*json)["rejected"] = nlohmann::json::array();
  for (const ScheduleChoice& choice : schedule.candidates) {
    if (choice.rejected.empty()) {
      (*json)["schedule"] = choice.name;
    } else {
      nlohmann::json rejected = {{"schedule", choice.name},
                                 {"why", choice.rejected}};
      // What the passes refused was not simulated.
      if (choice.makespan_us > 0) {
        rejected["makespan_us"] = choice.makespan_us;
        rejected["peak_bytes"] = choice.peak_bytes;
      }
      (*json)["rejected"].push_back(std::move(rejected));
    }
  }
}

}  // namespace asyra
