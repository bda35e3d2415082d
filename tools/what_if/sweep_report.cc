#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/algorithm/container.h"
#include "absl/strings/str_join.h"
#include "ir/support/status.h"
#include "ir/support/units.h"
#include "tools/report/mesh_advice.h"
#include "tools/what_if/sweep.h"

namespace asyra {
namespace {

// The share of a step by formula from which on it is not like a measured one.
constexpr double kMostlyFormula = 0.5;

std::string NameOf(const std::vector<GridAxis>& grid,
                   const std::vector<std::string>& values) {
  std::string name;
  for (size_t i = 0; i < grid.size(); ++i) {
    if (values[i].empty()) continue;
    name +=
        fmt::format("{}{}={}", name.empty() ? "" : " ", grid[i].key, values[i]);
  }
  return name.empty() ? "the point" : name;
}

// Returns the point whose schedule it uses; empty if it uses its own schedule.
std::string FoundFor(const std::vector<GridAxis>& grid,
                     const SweepPoint& point) {
  if (point.found_for.empty()) return "";
  return NameOf(grid, point.found_for) +
         (point.found_unchanged ? " without --set" : "");
}

std::string Misfit(const SweepPoint& point) {
  return fmt::format("does not fit: {} on a device of {}, {} too much",
                     BytesText(point.peak_bytes),
                     BytesText(point.capacity_bytes),
                     BytesText(point.peak_bytes - point.capacity_bytes));
}

double TokensPerSecond(const SweepPoint& point) {
  return TokensPerSecond(point.step, point.makespan_us);
}

double TokensPerSecondAndDevice(const SweepPoint& point) {
  return TokensPerSecond(point) / static_cast<double>(point.devices);
}

// Samples of a model without tokens.
std::string TokensText(const SweepPoint& point, double per_s) {
  if (!point.step.known()) return "-";
  std::string text = CountText(per_s);
  return text.substr(0, text.find_last_not_of(' ') + 1);
}

// The step of all points, if they have the same.
std::optional<StepShape> CommonStep(const std::vector<SweepPoint>& points) {
  std::optional<StepShape> common;
  for (const SweepPoint& point : points) {
    if (!point.valid()) continue;
    if (common.has_value() && *common != point.step) return std::nullopt;
    common = point.step;
  }
  return common;
}

// A line on the point with the largest redundant share, if it is large enough.
std::string RedundancyText(const std::vector<GridAxis>& grid,
                           const std::vector<SweepPoint>& points) {
  size_t count = 0;
  const SweepPoint* most = nullptr;
  for (const SweepPoint& point : points) {
    if (point.redundant < kWorthAnotherMesh) continue;
    ++count;
    if (most == nullptr || point.redundant > most->redundant) most = &point;
  }
  if (most == nullptr) return "";
  return fmt::format(
      "note: {} of {} points compute the same on all devices of an axis; most "
      "{}: {:.3g} % of a device's operations over {} ({})\n",
      count, points.size(), NameOf(grid, most->values), 100 * most->redundant,
      most->redundant_axis, most->redundant_ops);
}

// On the first of the points whose heads, say, an axis does not divide.
std::string UndividedText(const std::vector<GridAxis>& grid,
                          const std::vector<SweepPoint>& points) {
  size_t count = 0;
  const SweepPoint* first = nullptr;
  for (const SweepPoint& point : points) {
    if (point.undivided.empty()) continue;
    ++count;
    if (first == nullptr) first = &point;
  }
  if (first == nullptr) return "";
  return fmt::format(
      "note: {} of {} points have an axis that does not divide an op; {}: {}\n",
      count, points.size(), NameOf(grid, first->values), first->undivided);
}

// On points that rest on formulas where others rest on measurements.
std::string BasisText(const std::vector<GridAxis>& grid,
                      const std::vector<SweepPoint>& points) {
  const SweepPoint* most = nullptr;
  const SweepPoint* least = nullptr;
  for (const SweepPoint& point : points) {
    if (!point.valid()) continue;
    if (most == nullptr || point.formula > most->formula) most = &point;
    if (least == nullptr || point.formula < least->formula) least = &point;
  }
  if (most == nullptr || most->formula < kMostlyFormula ||
      least->formula >= kMostlyFormula) {
    return "";
  }
  return fmt::format(
      "note: do not rank {} against {}: {:.1f} % of the first rests on "
      "formulas, which know neither a limit of power nor the libraries, {:.1f} "
      "% of the second; formula % tells which points compare\n",
      NameOf(grid, most->values), NameOf(grid, least->values),
      100 * most->formula, 100 * least->formula);
}

std::string Quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

}  // namespace

absl::Status CheckAnyValid(const std::vector<GridAxis>& grid,
                           const std::vector<SweepPoint>& points) {
  std::string reasons;
  for (const SweepPoint& point : points) {
    if (point.valid() && point.fits) return absl::OkStatus();
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ",
                           NameOf(grid, point.values),
                           point.valid() ? Misfit(point) : point.error);
  }
  return Invalid("none of {} points is valid: {}", points.size(), reasons);
}

std::string SweepText(const std::vector<GridAxis>& grid,
                      const SweepResult& result) {
  const std::vector<SweepPoint>& points = result.points;
  size_t width = 0;
  for (const SweepPoint& point : points) {
    width = std::max(width, NameOf(grid, point.values).size());
  }
  std::optional<StepShape> common = CommonStep(points);
  bool training = absl::c_any_of(
      points, [](const SweepPoint& point) { return point.training; });
  std::string text;
  if (common.has_value() && common->known()) {
    text = fmt::format("step: {}\n", ToText(*common));
  }
  text += fmt::format(
      "{:<{}} {:>7} {:>12} {:>10} {}{:>12} {:>8} {:>12} {:>6} {:>9} {:>10} "
      "{:>5}\n",
      "point", width, "devices", "makespan", "tokens/s",
      training ? fmt::format("{:>12} ", "a device") : "", "bound", "bubble %",
      "exposed", "MFU %", "formula %", "peak", "tiles");
  double slowest_us = 0;
  int64_t most_bytes = 0;
  for (const SweepPoint& point : points) {
    slowest_us = std::max(slowest_us, point.makespan_us);
    most_bytes = std::max(most_bytes, point.peak_bytes);
  }
  TimeColumn times(slowest_us);
  BytesColumn bytes(most_bytes);
  for (const SweepPoint& point : points) {
    text += fmt::format("{:<{}} ", NameOf(grid, point.values), width);
    if (!point.valid()) {
      text += point.error + "\n";
      continue;
    }
    text += fmt::format(
        "{:>7} {:>12}{:<1} {:>9} {}{:>12} {:>8.1f} {:>12} {:>6.1f} {:>9.1f} "
        "{:>10} {:>5}{}\n",
        point.devices, times.Text(point.makespan_us), point.tie ? "~" : "",
        TokensText(point, TokensPerSecond(point)),
        training
            ? fmt::format("{:>12} ",
                          TokensText(point, TokensPerSecondAndDevice(point)))
            : "",
        times.Text(point.lower_bound_us), 100 * point.bubble,
        times.Text(point.exposed_comm_us), 100 * point.mfu, 100 * point.formula,
        bytes.Text(point.peak_bytes), point.tiles,
        !point.fits       ? "  " + Misfit(point)
        : point.pareto    ? "  pareto"
        : point.estimated ? "  not searched"
                          : "");
    if (!common.has_value() && point.step.known()) {
      text.insert(text.size() - 1, "  " + ToText(point.step));
    }
    if (!point.found_for.empty()) {
      text.insert(text.size() - 1,
                  "  schedule found for " + FoundFor(grid, point));
    }
  }
  if (absl::c_any_of(points, [](const SweepPoint& p) { return p.tie; })) {
    text +=
        "~ a tie: another point of the same work differs by less than the "
        "noise of the search\n";
  }
  if (absl::c_any_of(points, [](const SweepPoint& p) { return p.estimated; })) {
    text +=
        "not searched: the time without a schedule; with one it lies between "
        "that and the bound\n";
  }
  text += BasisText(grid, points) + RedundancyText(grid, points) +
          UndividedText(grid, points);
  if (result.skipped > 0) {
    text += fmt::format(
        "{} combinations of another number of devices than --ranks skipped\n",
        result.skipped);
  }
  return text;
}

std::string SweepCsvHead(const std::vector<GridAxis>& grid) {
  std::string text;
  for (const GridAxis& axis : grid) text += Quoted(axis.key) + ",";
  return text +
         "devices,batch,tokens,dtype,unit,tokens_per_s,tokens_per_s_device,"
         "makespan_us,lower_bound_us,bubble,exposed_comm_us,mfu,formula,"
         "peak_bytes,capacity_bytes,tiles,fits,pareto,rank,tie,noise,redundant,"
         "skipped,found_for,estimated,error\n";
}

std::string SweepCsvRow(const std::vector<GridAxis>& grid,
                        const SweepPoint& point, size_t skipped, bool marked) {
  std::string text;
  for (const std::string& value : point.values) text += Quoted(value) + ",";
  if (!point.valid()) {
    return text + std::string(22, ',') +
           (marked ? fmt::format("{}", skipped) : "") + ",,," +
           Quoted(point.error) + "\n";
  }
  text += fmt::format(
      "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},", point.devices,
      point.step.batch, absl::StrJoin(point.step.tokens, " "), point.step.dtype,
      point.step.unit(), TokensPerSecond(point),
      TokensPerSecondAndDevice(point), point.makespan_us, point.lower_bound_us,
      point.bubble, point.exposed_comm_us, point.mfu, point.formula,
      point.peak_bytes, point.capacity_bytes, point.tiles, point.fits);
  text += marked ? fmt::format("{},{},{},", point.pareto, point.rank, point.tie)
                 : ",,,";
  return text + fmt::format("{},{},{},{},{},\n", point.noise, point.redundant,
                            marked ? fmt::format("{}", skipped) : "",
                            Quoted(FoundFor(grid, point)), point.estimated);
}

std::string SweepCsv(const std::vector<GridAxis>& grid,
                     const SweepResult& result) {
  std::string text = SweepCsvHead(grid);
  for (const SweepPoint& point : result.points) {
    text += SweepCsvRow(grid, point, result.skipped, /*marked=*/true);
  }
  return text;
}

std::string SweepJson(const std::string& model,
                      const std::vector<GridAxis>& grid,
                      const SweepResult& result) {
  const std::vector<SweepPoint>& points = result.points;
  using Json = nlohmann::ordered_json;
  Json json = {{"format", "asyra-sweep"}, {"version", 1},
               {"model", model},          {"skipped", result.skipped},
               {"grid", Json::array()},   {"points", Json::array()}};
  for (const GridAxis& axis : grid) {
    json["grid"].push_back({{"key", axis.key}, {"values", axis.values}});
  }
  for (const SweepPoint& point : points) {
    Json entry = {{"values", point.values}};
    if (point.valid()) {
      entry.update({{"devices", point.devices},
                    {"batch", point.step.batch},
                    {"tokens", point.step.tokens},
                    {"dtype", point.step.dtype},
                    {"unit", point.step.unit()},
                    {"tokens_per_s", TokensPerSecond(point)},
                    {"tokens_per_s_device", TokensPerSecondAndDevice(point)},
                    {"makespan_us", point.makespan_us},
                    {"lower_bound_us", point.lower_bound_us},
                    {"bubble", point.bubble},
                    {"exposed_comm_us", point.exposed_comm_us},
                    {"mfu", point.mfu},
                    {"formula", point.formula},
                    {"peak_bytes", point.peak_bytes},
                    {"capacity_bytes", point.capacity_bytes},
                    {"tiles", point.tiles},
                    {"fits", point.fits},
                    {"pareto", point.pareto},
                    {"rank", point.rank},
                    {"tie", point.tie},
                    {"noise", point.noise},
                    {"redundant", point.redundant},
                    {"estimated", point.estimated}});
      if (!point.found_for.empty()) entry["found_for"] = point.found_for;
    } else {
      entry["error"] = point.error;
    }
    json["points"].push_back(std::move(entry));
  }
  if (std::string basis = BasisText(grid, points); !basis.empty()) {
    constexpr size_t kAfterNote = 6;  // "note: "
    json["notes"] = {basis.substr(kAfterNote, basis.size() - kAfterNote - 1)};
  }
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace asyra
