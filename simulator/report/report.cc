#include "simulator/report/report.h"

#include <algorithm>
#include <map>

#include "fmt/format.h"
#include "ir/support/units.h"
#include "simulator/report/text.h"

namespace asyra {
namespace {

constexpr size_t kMostRows = 10;
constexpr size_t kNameWidth = 50;

std::string Row(std::string_view what, const std::string& value,
                const std::string& more) {
  return fmt::format("{:<15}{:>15}   {}\n", what, value, more);
}

double Count(int64_t bytes) { return static_cast<double>(bytes); }

std::string Heading(const Profile& profile) {
  std::string text = profile.model;
  if (!profile.machine.empty()) text += " on " + profile.machine;
  text += fmt::format(", {} device{}", profile.devices,
                      profile.devices == 1 ? "" : "s");
  if (!profile.mesh.empty()) text += " " + profile.mesh;
  return text + "\n";
}

std::string Bound(const Profile& profile) {
  if (profile.lower_bound_us == 0) return "";
  return fmt::format("lower bound {}, gap {:.1f} %",
                     TimeText(profile.lower_bound_us),
                     Percent(profile.makespan_us - profile.lower_bound_us,
                             profile.lower_bound_us));
}

std::string Computation(const Profile& profile) {
  std::string text = fmt::format("bubble {:.1f} %", 100 * profile.bubble);
  if (profile.mfu > 0) text += fmt::format(", MFU {:.1f} %", 100 * profile.mfu);
  return text;
}

std::string Sources(const Profile& profile) {
  std::string text;
  for (const ProfileShare& source : profile.sources) {
    text += fmt::format("{}{} {:.1f} %", text.empty() ? "" : ", ", source.name,
                        Percent(source.us, profile.makespan_us));
  }
  return text;
}

std::string Power(const Profile& profile) {
  if (profile.clock_mhz == 0) return "";
  bool is_limited = profile.clock_mhz < profile.most_mhz;
  std::string text = fmt::format(
      "clock {:.0f} MHz{}", profile.clock_mhz,
      is_limited
          ? fmt::format(" of {:.0f}, at the limit of power", profile.most_mhz)
          : "");
  double joules = EnergyPerToken(profile);
  if (joules > 0) {
    text += fmt::format(", {} a {}", EnergyText(joules), profile.step.one());
  }
  return Row("power", fmt::format("{:.0f} W", profile.watts), text);
}

// Share of the device's memory or how much more than all it is, and what of it
// the model does not fill.
std::string DeviceShare(const Profile& profile) {
  int64_t over = profile.device_bytes - profile.capacity_bytes;
  std::string capacity = BytesText(profile.capacity_bytes);
  std::string text;
  if (profile.capacity_bytes > 0 && over > 0) {
    text = BytesText(over) + " more than " + capacity;
  } else if (profile.capacity_bytes > 0) {
    text = fmt::format(
        "{:.1f} % of {}",
        Percent(Count(profile.device_bytes), Count(profile.capacity_bytes)),
        capacity);
  }
  int64_t libraries = profile.device_bytes - profile.arena_bytes;
  if (libraries <= 0) return text;
  return fmt::format("{}{}{} libraries and kernels", text,
                     text.empty() ? "" : "; ", BytesText(libraries));
}

std::string Memory(const Profile& profile) {
  std::map<std::string, int64_t> kinds;
  for (const ProfileBuffer& buffer : profile.at_peak) {
    kinds[buffer.kind] += buffer.bytes;
  }
  std::string filled;
  for (const auto& [kind, bytes] : kinds) {
    filled += fmt::format("{}{} {}", filled.empty() ? "" : ", ", kind,
                          BytesText(bytes));
  }
  BytesColumn unit(std::max(
      {profile.peak_bytes, profile.arena_bytes, profile.device_bytes}));
  std::string text = Row("peak memory", unit.Text(profile.peak_bytes), filled);
  if (profile.device_bytes > 0) {
    text += Row("  in an arena", unit.Text(profile.arena_bytes),
                fmt::format("reached at {}", TimeText(profile.peak_us)));
    text += Row("  on the device", unit.Text(profile.device_bytes),
                DeviceShare(profile));
  }
  size_t shown = 0;
  for (const ProfileBuffer& buffer : profile.at_peak) {
    if (buffer.kind == "weight" || buffer.type.empty() || shown == 3) continue;
    ++shown;
    text += Row("", unit.Text(buffer.bytes),
                fmt::format("{} {}", buffer.name, buffer.type));
  }
  return text;
}

// Ops of the critical path, the longest first.
std::vector<const ProfileOp*> Critical(const Profile& profile) {
  std::vector<const ProfileOp*> ops;
  for (const ProfileOp& op : profile.ops) {
    if (op.critical) ops.push_back(&op);
  }
  std::stable_sort(ops.begin(), ops.end(),
                   [](const ProfileOp* a, const ProfileOp* b) {
                     return a->duration_us() > b->duration_us();
                   });
  return ops;
}

struct Group {
  int count = 0;
  double us = 0;
  double alone_us = 0;
};

using Groups = std::map<std::string, Group>;

// The first cell of a row.
std::string NameCell(const std::string& name) {
  return fmt::format("  {:<{}}", FitName(name, kNameWidth), kNameWidth);
}

std::string GroupRows(const Groups& groups, double makespan_us) {
  std::vector<std::pair<std::string, Group>> rows(groups.begin(), groups.end());
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.second.us > b.second.us;
  });
  std::string text;
  TimeColumn times(rows.empty() ? 0 : rows[0].second.us);
  for (size_t i = 0; i < rows.size() && i < kMostRows; ++i) {
    const Group& group = rows[i].second;
    text += NameCell(rows[i].first) +
            fmt::format(" {:>5} {:>10} {:>5.1f} {:>10}\n", group.count,
                        times.Text(group.us), Percent(group.us, makespan_us),
                        times.Text(std::max(0.0, group.us - group.alone_us)));
  }
  return text;
}

std::string GroupHead(const std::string& what) {
  return NameCell(what) + fmt::format(" {:>5} {:>10} {:>5} {:>10}\n", "ops",
                                      "time", "%", "slowed by");
}

std::string LongestOps(const Profile& profile) {
  Groups groups;
  for (const ProfileOp* op : Critical(profile)) {
    Group& group = groups[fmt::format("{} ({})", StarName(op->name), op->op)];
    ++group.count;
    group.us += op->duration_us();
    group.alone_us += op->alone_us;
  }
  if (groups.empty()) return "";
  return "critical path, * for any number\n" + GroupHead("") +
         GroupRows(groups, profile.makespan_us);
}

std::string ExposedRow(const std::string& name, int count, double us,
                       double makespan_us, const TimeColumn& times,
                       const std::string& why) {
  return NameCell(name) + fmt::format(" {:>5} {:>10} {:>5.1f}  {}\n", count,
                                      times.Text(us), Percent(us, makespan_us),
                                      why);
}

// Kernels that communicate, which count as computation elsewhere.
struct KernelSum {
  int count = 0;
  double us = 0;
};
std::map<std::string, KernelSum> KernelSums(const Profile& profile) {
  std::map<std::string, KernelSum> sums;
  for (const ProfileOp& op : profile.ops) {
    if (op.kernel_axes.empty()) continue;
    KernelSum& sum = sums[op.kernel_axes];
    ++sum.count;
    sum.us += op.duration_us();
  }
  return sums;
}

}  // namespace

std::vector<ExposedGroup> ExposedGroups(const Profile& profile) {
  std::map<std::string, ExposedGroup> groups;
  for (const ProfileOp& op : profile.ops) {
    if (op.exposed_us == 0) continue;
    std::string name = StarName(op.name);
    ExposedGroup& group = groups[fmt::format("{}\n{}\n{}\n{}", name, op.op,
                                             op.axes, op.exposed_by)];
    group.name = name;
    group.op = op.op;
    group.axes = op.axes;
    group.why = op.exposed_by;
    ++group.count;
    group.us += op.exposed_us;
  }
  std::vector<ExposedGroup> sorted;
  for (auto& [key, group] : groups) sorted.push_back(std::move(group));
  std::stable_sort(
      sorted.begin(), sorted.end(),
      [](const ExposedGroup& a, const ExposedGroup& b) { return a.us > b.us; });
  return sorted;
}

std::string ExposureReport(const Profile& profile, size_t most_rows) {
  std::vector<ExposedGroup> groups = ExposedGroups(profile);
  std::map<std::string, KernelSum> kernels = KernelSums(profile);
  if (groups.empty() && kernels.empty()) return "";
  std::string text = "exposed communication\n" + NameCell("") +
                     fmt::format(" {:>5} {:>10} {:>5}  {}\n", "ops", "time",
                                 "%", "limited by");
  ExposedGroup rest;
  for (size_t i = most_rows; i < groups.size(); ++i) {
    rest.count += groups[i].count;
    rest.us += groups[i].us;
  }
  double largest_us = groups.empty() ? 0 : std::max(groups[0].us, rest.us);
  for (const auto& [axes, sum] : kernels) {
    largest_us = std::max(largest_us, sum.us);
  }
  TimeColumn times(largest_us);
  auto add = [&](const std::string& name, int count, double us,
                 const std::string& why) {
    text += ExposedRow(name, count, us, profile.makespan_us, times, why);
  };
  for (size_t i = 0; i < groups.size() && i < most_rows; ++i) {
    const ExposedGroup& group = groups[i];
    add(fmt::format("{} over {}", group.name, group.axes), group.count,
        group.us, group.why);
  }
  if (rest.count > 0) add("others", rest.count, rest.us, "several");
  for (const auto& [axes, sum] : kernels) {
    add("in kernels, over " + axes, sum.count, sum.us,
        "counted as computation");
  }
  return text;
}

std::string Report(const Profile& profile) {
  std::string text =
      Heading(profile) + StepText(profile.step, profile.makespan_us);
  TimeColumn times(std::max({profile.makespan_us, profile.compute_us,
                             profile.comm_us, profile.exposed_comm_us}));
  text += Row("makespan", times.Text(profile.makespan_us), Bound(profile));
  text +=
      Row("computation", times.Text(profile.compute_us), Computation(profile));
  text +=
      Row("communication", times.Text(profile.comm_us),
          fmt::format("exposed {}, {} collective{}",
                      times.Text(profile.exposed_comm_us), profile.collectives,
                      profile.collectives == 1 ? "" : "s"));
  for (const ProfileExposure& axes : profile.exposed) {
    text += Row("  " + axes.axes, times.Text(axes.comm_us),
                fmt::format("exposed {}", times.Text(axes.exposed_us)));
  }
  text += Power(profile);
  if (profile.peak_bytes > 0) text += Memory(profile);
  if (!profile.sources.empty()) {
    text += fmt::format("{:<15}{}\n", "rests on", Sources(profile));
  }
  for (const std::string& note : profile.notes) {
    text += fmt::format("note: {}\n", note);
  }
  return text + ExposureReport(profile) + LongestOps(profile);
}

std::string CriticalPathReport(const Profile& profile) {
  Groups ops, limits, causes;
  for (const ProfileOp* op : Critical(profile)) {
    std::string what =
        op->is_collective() ? op->op + " over " + op->axes : op->op;
    for (const auto& [groups, key] :
         {std::pair{&ops, what}, std::pair{&limits, op->limit},
          std::pair{&causes, op->waited_for}}) {
      Group& group = (*groups)[key];
      ++group.count;
      group.us += op->duration_us();
      group.alone_us += op->alone_us;
    }
  }
  if (ops.empty()) return "";
  std::string text = "critical path\n";
  text += GroupHead("by op") + GroupRows(ops, profile.makespan_us);
  text +=
      GroupHead("by what bounds it") + GroupRows(limits, profile.makespan_us);
  text +=
      GroupHead("by what held it up") + GroupRows(causes, profile.makespan_us);
  text += "load of each resource by all ops\n";
  TimeColumn times(profile.makespan_us);
  for (const ProfileShare& resource : profile.resources) {
    text += NameCell(resource.name) +
            fmt::format(" {:>16} {:>5.1f}\n", times.Text(resource.us),
                        Percent(resource.us, profile.makespan_us));
  }
  return text;
}

}  // namespace asyra
