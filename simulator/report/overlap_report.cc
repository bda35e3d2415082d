#include <algorithm>
#include <map>

#include "fmt/format.h"
#include "ir/support/units.h"
#include "simulator/report/report.h"
#include "simulator/report/text.h"

namespace asyra {
namespace {

constexpr size_t kNameWidth = 40;

// Sums over all overlaps of one name.
struct Sums {
  int count = 0;
  double us = 0, compute_us = 0, copy_us = 0;
  double head_us = 0, gaps_us = 0, tail_us = 0;  // none computes
};

void Add(const ProfileOp& op, Sums* sums) {
  ++sums->count;
  sums->us += op.duration_us();
  // Steps of a queue are in order, and only one queue computes.
  double computed_until = op.start_us;
  bool first = true;
  for (const ProfileStep& step : op.steps) {
    if (step.is_copy) {
      sums->copy_us += step.end_us - step.start_us;
      continue;
    }
    sums->compute_us += step.end_us - step.start_us;
    double gap_us = std::max(0.0, step.start_us - computed_until);
    (first ? sums->head_us : sums->gaps_us) += gap_us;
    computed_until = step.end_us;
    first = false;
  }
  sums->tail_us += op.end_us - computed_until;
}

std::string Line(const std::string& name, const Sums& sums) {
  double count = sums.count;
  std::string text = fmt::format("  {:<{}} {:>5}", FitName(name, kNameWidth),
                                 kNameWidth, sums.count);
  for (double us : {sums.us, sums.compute_us, sums.copy_us, sums.head_us,
                    sums.gaps_us, sums.tail_us}) {
    text += fmt::format(" {:>9}", TimeText(us / count));
  }
  return text + "\n";
}

}  // namespace

std::string OverlapReport(const Profile& profile, size_t most_rows) {
  std::map<std::string, Sums> names;
  for (const ProfileOp& op : profile.ops) {
    if (!op.steps.empty()) Add(op, &names[StarName(op.name)]);
  }
  if (names.empty()) return "";
  std::vector<std::pair<std::string, Sums>> rows(names.begin(), names.end());
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.second.us > b.second.us;
  });
  std::string text = fmt::format(
      "overlaps, one of each name: no piece runs at the head, in gaps, at the "
      "tail\n  {:<{}} {:>5} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n",
      "", kNameWidth, "ops", "time", "pieces", "copies", "head", "gaps",
      "tail");
  for (size_t i = 0; i < std::min(rows.size(), most_rows); ++i) {
    text += Line(rows[i].first, rows[i].second);
  }
  if (rows.size() > most_rows) {
    text += fmt::format("  {} others\n", rows.size() - most_rows);
  }
  return text;
}

}  // namespace asyra
