#include <map>
#include <nlohmann/json.hpp>

#include "ir/support/status.h"
#include "simulator/text.h"
#include "tools/sweep.h"

namespace asyra {
namespace {

std::string NameOf(const std::vector<GridAxis>& grid, const SweepPoint& point) {
  std::string name;
  for (size_t i = 0; i < grid.size(); ++i) {
    name +=
        fmt::format("{}{}={}", i > 0 ? " " : "", grid[i].key, point.values[i]);
  }
  return name.empty() ? "the point" : name;
}

std::string Misfit(const SweepPoint& point) {
  return fmt::format("does not fit: {} on a device of {}, {} too much",
                     BytesText(point.peak_bytes),
                     BytesText(point.capacity_bytes),
                     BytesText(point.peak_bytes - point.capacity_bytes));
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
                           NameOf(grid, point),
                           point.valid() ? Misfit(point) : point.error);
  }
  return Invalid("none of {} points is valid: {}", points.size(), reasons);
}

std::string SweepText(const std::vector<GridAxis>& grid,
                      const std::vector<SweepPoint>& points) {
  size_t width = 0;
  for (const SweepPoint& point : points) {
    width = std::max(width, NameOf(grid, point).size());
  }
  std::string text =
      fmt::format("{:<{}} {:>7} {:>12} {:>12} {:>8} {:>12} {:>6} {:>9} {:>5}\n",
                  "point", width, "devices", "makespan us", "bound us",
                  "bubble %", "exposed us", "MFU %", "peak GiB", "tiles");
  for (const SweepPoint& point : points) {
    text += fmt::format("{:<{}} ", NameOf(grid, point), width);
    if (!point.valid()) {
      text += point.error + "\n";
      continue;
    }
    text += fmt::format(
        "{:>7} {:>12.1f} {:>12.1f} {:>8.1f} {:>12.1f} {:>6.1f} {:>9.2f} "
        "{:>5}{}\n",
        point.devices, point.makespan_us, point.lower_bound_us,
        100 * point.bubble, point.exposed_comm_us, 100 * point.mfu,
        static_cast<double>(point.peak_bytes) / (1 << 30), point.tiles,
        !point.fits    ? "  " + Misfit(point)
        : point.pareto ? "  pareto"
                       : "");
  }
  return text;
}

std::string SweepCsv(const std::vector<GridAxis>& grid,
                     const std::vector<SweepPoint>& points) {
  std::string text;
  for (const GridAxis& axis : grid) text += Quoted(axis.key) + ",";
  text +=
      "devices,makespan_us,lower_bound_us,bubble,exposed_comm_us,mfu,"
      "peak_bytes,capacity_bytes,tiles,fits,pareto,error\n";
  for (const SweepPoint& point : points) {
    for (const std::string& value : point.values) text += Quoted(value) + ",";
    if (point.valid()) {
      text += fmt::format("{},{},{},{},{},{},{},{},{},{},{},\n", point.devices,
                          point.makespan_us, point.lower_bound_us, point.bubble,
                          point.exposed_comm_us, point.mfu, point.peak_bytes,
                          point.capacity_bytes, point.tiles, point.fits,
                          point.pareto);
    } else {
      text += ",,,,,,,,,,," + Quoted(point.error) + "\n";
    }
  }
  return text;
}

std::string SweepJson(const std::string& model,
                      const std::vector<GridAxis>& grid,
                      const std::vector<SweepPoint>& points) {
  using Json = nlohmann::ordered_json;
  Json json = {{"format", "asyra-sweep"},
               {"version", 1},
               {"model", model},
               {"grid", Json::array()},
               {"points", Json::array()}};
  for (const GridAxis& axis : grid) {
    json["grid"].push_back({{"key", axis.key}, {"values", axis.values}});
  }
  for (const SweepPoint& point : points) {
    Json entry = {{"values", point.values}};
    if (point.valid()) {
      entry.update({{"devices", point.devices},
                    {"makespan_us", point.makespan_us},
                    {"lower_bound_us", point.lower_bound_us},
                    {"bubble", point.bubble},
                    {"exposed_comm_us", point.exposed_comm_us},
                    {"mfu", point.mfu},
                    {"peak_bytes", point.peak_bytes},
                    {"capacity_bytes", point.capacity_bytes},
                    {"tiles", point.tiles},
                    {"fits", point.fits},
                    {"pareto", point.pareto}});
    } else {
      entry["error"] = point.error;
    }
    json["points"].push_back(std::move(entry));
  }
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace asyra
