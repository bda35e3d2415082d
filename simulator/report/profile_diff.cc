#include "simulator/report/profile_diff.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "fmt/format.h"
#include "ir/support/units.h"
#include "simulator/report/text.h"

namespace asyra {
namespace {

constexpr size_t kMostRows = 12;

bool IsTileOrFuture(std::string_view part) {
  if (part == "future") return true;
  return part.size() > 1 && part[0] == 't' &&
         part.find_first_not_of("0123456789", 1) == std::string_view::npos;
}

// Without the suffixes of scheduling: "a.t1.future" -> "a".
std::string BaseName(const std::string& name) {
  std::string base;
  for (size_t at = 0; at <= name.size();) {
    size_t dot = std::min(name.find('.', at), name.size());
    std::string_view part = std::string_view(name).substr(at, dot - at);
    if (at == 0 || !IsTileOrFuture(part)) {
      if (at > 0) base += '.';
      base += part;
    }
    at = dot + 1;
  }
  return base;
}

struct Total {
  std::string name;
  std::string (*show)(double);  // null: a time
  double before, after;
  bool maybe_unknown = false;  // 0 is: not known
};

std::string Shown(const Total& total, const TimeColumn& times, double value) {
  if (total.maybe_unknown && value == 0) return "-";
  return total.show != nullptr ? total.show(value) : times.Text(value);
}

std::string Share(double percent) { return fmt::format("{:.1f} %", percent); }
std::string Count(double count) { return fmt::format("{:.0f}", count); }
std::string Megahertz(double mhz) { return fmt::format("{:.0f} MHz", mhz); }
std::string Watts(double watts) { return fmt::format("{:.0f} W", watts); }
std::string Bytes(double bytes) { return BytesText(bytes); }

// Exposed time over all axes that either communicates over.
std::vector<Total> ExposedOver(const Profile& a, const Profile& b) {
  std::map<std::string, std::pair<double, double>> axes;
  for (const ProfileExposure& e : a.exposed) axes[e.axes].first = e.exposed_us;
  for (const ProfileExposure& e : b.exposed) axes[e.axes].second = e.exposed_us;
  std::vector<Total> totals;
  for (const auto& [name, us] : axes) {
    totals.push_back({"  over " + name, nullptr, us.first, us.second});
  }
  return totals;
}

std::string RateName(const StepShape& a, const StepShape& b) {
  return fmt::format("{} a second", a.known() ? a.unit() : b.unit());
}

std::string EnergyName(const StepShape& a, const StepShape& b) {
  return fmt::format("energy a {}", a.known() ? a.one() : b.one());
}

std::vector<Total> Totals(const Profile& a, const Profile& b) {
  auto tokens = [](const Profile& p) {
    return TokensPerSecond(p.step, p.makespan_us);
  };
  auto number = [](auto n) { return static_cast<double>(n); };
  std::vector<Total> totals = {
      {"makespan", nullptr, a.makespan_us, b.makespan_us},
      {RateName(a.step, b.step), Count, tokens(a), tokens(b), true},
      {"lower bound", nullptr, a.lower_bound_us, b.lower_bound_us, true},
      {"computation", nullptr, a.compute_us, b.compute_us},
      {"communication", nullptr, a.comm_us, b.comm_us},
      {"exposed", nullptr, a.exposed_comm_us, b.exposed_comm_us}};
  for (Total& total : ExposedOver(a, b)) totals.push_back(std::move(total));
  const Total more[] = {
      {"bubble", Share, 100 * a.bubble, 100 * b.bubble},
      {"MFU", Share, 100 * a.mfu, 100 * b.mfu, true},
      {"peak memory", Bytes, number(a.peak_bytes), number(b.peak_bytes), true},
      {"ops", Count, number(a.ops.size()), number(b.ops.size())},
      {"collectives", Count, number(a.collectives), number(b.collectives)}};
  totals.insert(totals.end(), std::begin(more), std::end(more));
  const Total power[] = {{"clock", Megahertz, a.clock_mhz, b.clock_mhz, true},
                         {"power", Watts, a.watts, b.watts, true},
                         {EnergyName(a.step, b.step), EnergyText,
                          EnergyPerToken(a), EnergyPerToken(b), true}};
  for (const Total& total : power) {
    if (total.before > 0 || total.after > 0) totals.push_back(total);
  }
  return totals;
}

std::string Change(double before, double after) {
  if (before == 0 || after == 0) return "";
  return fmt::format("{:+.1f} %", 100 * (after - before) / before);
}

bool AreTied(const Profile& a, const Profile& b) {
  return IsTie(a.makespan_us, a.noise, b.makespan_us, b.noise);
}

std::string Counts(const OpDifference& op) {
  if (op.after_count == 0) return "gone";
  if (op.before_count == 0) return "new";
  if (op.before_count == op.after_count) return "";
  return fmt::format("{} -> {} ops", op.before_count, op.after_count);
}

// Corresponding ops of all layers together.
std::vector<OpDifference> Patterns(const std::vector<OpDifference>& ops) {
  std::vector<OpDifference> patterns;
  std::map<std::string, size_t> index;
  for (const OpDifference& op : ops) {
    std::string name = StarName(op.name);
    auto [at, is_new] =
        index.try_emplace(fmt::format("{} ({})", name, op.op), patterns.size());
    if (is_new) patterns.push_back({at->first});
    OpDifference& sum = patterns[at->second];
    sum.before_count += op.before_count;
    sum.after_count += op.after_count;
    sum.before_us += op.before_us;
    sum.after_us += op.after_us;
    sum.before_critical_us += op.before_critical_us;
    sum.after_critical_us += op.after_critical_us;
  }
  return patterns;
}

std::string Rows(const std::vector<OpDifference>& ops,
                 double OpDifference::*before, double OpDifference::*after) {
  std::vector<OpDifference> rows = Patterns(ops);
  auto change = [&](const OpDifference& op) {
    return std::abs(op.*after - op.*before);
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const OpDifference& a, const OpDifference& b) {
                     return change(a) > change(b);
                   });
  double largest_us = 0;
  for (const OpDifference& op : rows) {
    largest_us = std::max({largest_us, op.*before, op.*after});
  }
  TimeColumn times(largest_us);
  auto change_text = [&](double us) {
    return (us >= 0 ? "+" : "") + times.Text(us);
  };
  std::string text;
  for (size_t i = 0; i < rows.size() && i < kMostRows; ++i) {
    const OpDifference& op = rows[i];
    std::string line =
        fmt::format("  {:<46} {:>10} {:>10} {:>11}  {}", FitName(op.name, 46),
                    times.Text(op.*before), times.Text(op.*after),
                    change_text(op.*after - op.*before), Counts(op));
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  if (rows.size() > kMostRows) {
    text += fmt::format("  and {} more\n", rows.size() - kMostRows);
  }
  return text;
}

std::vector<OpDifference> Only(const std::vector<OpDifference>& ops,
                               bool (OpDifference::*test)() const) {
  std::vector<OpDifference> chosen;
  for (const OpDifference& op : ops) {
    if ((op.*test)()) chosen.push_back(op);
  }
  return chosen;
}

using Json = nlohmann::ordered_json;

Json TotalsJson(const Profile& profile) {
  return {{"model", profile.model},
          {"machine", profile.machine},
          {"mesh", profile.mesh},
          {"tokens_per_s", TokensPerSecond(profile.step, profile.makespan_us)},
          {"makespan_us", profile.makespan_us},
          {"lower_bound_us", profile.lower_bound_us},
          {"compute_us", profile.compute_us},
          {"comm_us", profile.comm_us},
          {"exposed_comm_us", profile.exposed_comm_us},
          {"bubble", profile.bubble},
          {"mfu", profile.mfu},
          {"clock_mhz", profile.clock_mhz},
          {"watts", profile.watts},
          {"peak_bytes", profile.peak_bytes},
          {"ops", profile.ops.size()},
          {"collectives", profile.collectives}};
}

Json OpsJson(const Profile& before, const Profile& after) {
  Json json = Json::array();
  for (const OpDifference& op : Differences(before, after)) {
    json.push_back({{"name", op.name},
                    {"op", op.op},
                    {"before_count", op.before_count},
                    {"after_count", op.after_count},
                    {"before_us", op.before_us},
                    {"after_us", op.after_us},
                    {"before_critical_us", op.before_critical_us},
                    {"after_critical_us", op.after_critical_us}});
  }
  return json;
}

std::string Dump(const Json& json) {
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

bool HasCriticalPath(const Profile& profile) {
  return std::any_of(profile.ops.begin(), profile.ops.end(),
                     [](const ProfileOp& op) { return op.critical; });
}

}  // namespace

std::vector<OpDifference> Differences(const Profile& before,
                                      const Profile& after) {
  std::vector<OpDifference> differences;
  std::map<std::string, size_t> index;
  auto at = [&](const ProfileOp& op) -> OpDifference& {
    auto [found, is_new] =
        index.try_emplace(BaseName(op.name), differences.size());
    if (is_new) differences.push_back({found->first, op.op});
    return differences[found->second];
  };
  for (const ProfileOp& op : before.ops) {
    OpDifference& entry = at(op);
    ++entry.before_count;
    entry.before_us += op.duration_us();
    if (op.critical) entry.before_critical_us += op.duration_us();
  }
  for (const ProfileOp& op : after.ops) {
    OpDifference& entry = at(op);
    ++entry.after_count;
    entry.after_us += op.duration_us();
    if (op.critical) entry.after_critical_us += op.duration_us();
  }
  std::stable_sort(differences.begin(), differences.end(),
                   [](const OpDifference& a, const OpDifference& b) {
                     return std::abs(a.change_us()) > std::abs(b.change_us());
                   });
  return differences;
}

std::string DifferenceReport(const Profile& before, const Profile& after) {
  std::string text = fmt::format("{:<22} {:>14} {:>14} {:>10}\n", "", "before",
                                 "after", "change");
  TimeColumn times(std::max(before.makespan_us, after.makespan_us));
  for (const Total& total : Totals(before, after)) {
    text += fmt::format("{:<22} {:>14} {:>14} {:>10}\n", total.name,
                        Shown(total, times, total.before),
                        Shown(total, times, total.after),
                        Change(total.before, total.after));
  }
  if (double noise = std::max(before.noise, after.noise);
      noise > 0 && AreTied(before, after)) {
    text.insert(text.find('\n', text.find("\nmakespan") + 1), " ~");
    text += fmt::format(
        "~ a tie: less than the noise of the search, {:.1f} %\n", 100 * noise);
  }
  std::vector<OpDifference> all = Differences(before, after), changed;
  for (const OpDifference& op : all) {
    if (std::abs(op.change_us()) >= 0.05) changed.push_back(op);
  }
  text += fmt::format("{} of {} {} another time, * for any number\n",
                      changed.size(), all.size(),
                      all.size() == 1 ? "op takes" : "ops take");
  text += Rows(changed, &OpDifference::before_us, &OpDifference::after_us);
  for (const auto& [profile, name] :
       {std::pair{&before, "before"}, std::pair{&after, "after"}}) {
    if (HasCriticalPath(*profile)) continue;
    return text + fmt::format("the critical path of {} ({}) is not known\n",
                              name, profile->model);
  }
  auto left = Only(all, &OpDifference::left_critical);
  text += fmt::format("{} {} left the critical path\n", left.size(),
                      left.size() == 1 ? "op" : "ops");
  text += Rows(left, &OpDifference::before_critical_us,
               &OpDifference::after_critical_us);
  auto joined = Only(all, &OpDifference::joined_critical);
  text += fmt::format("{} {} joined it\n", joined.size(),
                      joined.size() == 1 ? "op" : "ops");
  return text + Rows(joined, &OpDifference::before_critical_us,
                     &OpDifference::after_critical_us);
}

std::string DifferenceJson(const Profile& before, const Profile& after) {
  return Dump({{"before", TotalsJson(before)},
               {"after", TotalsJson(after)},
               {"tie", AreTied(before, after)},
               {"ops", OpsJson(before, after)}});
}

std::string DifferencesJson(const Profile& before, const Profile& after) {
  return Dump(OpsJson(before, after));
}

}  // namespace asyra
