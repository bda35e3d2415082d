#include "tools/what_if/sweep_marks.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <string_view>

#include "absl/algorithm/container.h"
#include "simulator/report/profile.h"

namespace asyra {
namespace {

bool AreTied(const SweepPoint& a, const SweepPoint& b) {
  return IsTie(a.makespan_us, a.noise, b.makespan_us, b.noise);
}

bool IsFaster(const SweepPoint& a, const SweepPoint& b) {
  return a.makespan_us < b.makespan_us && !AreTied(a, b);
}

// Returns whether `a` dominates `b`: no worse in time and memory, and better in
// one.
bool Beats(const SweepPoint& a, const SweepPoint& b) {
  return a.peak_bytes <= b.peak_bytes && !IsFaster(b, a) &&
         (a.peak_bytes < b.peak_bytes || IsFaster(a, b));
}

// Returns whether points that differ in `key` do different work.
bool TellsWorkApart(std::string_view key) {
  return key == "expert-capacity" || key.starts_with("dim.");
}

// The same, or another machine.
bool TellsKindsApart(std::string_view key) {
  return TellsWorkApart(key) || key == "machine" || key.starts_with("set.");
}

// Points that count, by the values of those axes.
std::vector<std::vector<SweepPoint*>> Grouped(
    const std::vector<GridAxis>& grid, bool (*apart)(std::string_view),
    const std::function<bool(const SweepPoint&)>& counts,
    std::vector<SweepPoint>* points) {
  std::map<std::vector<std::string>, std::vector<SweepPoint*>> kinds;
  for (SweepPoint& point : *points) {
    if (!point.valid() || !counts(point)) continue;
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

// Points whose times are alike: that fit, and were searched if any was.
std::function<bool(const SweepPoint&)> Comparable(
    const std::vector<SweepPoint>& points) {
  bool searched = absl::c_any_of(points, [](const SweepPoint& point) {
    return point.valid() && !point.estimated;
  });
  return [searched](const SweepPoint& point) {
    return point.fits && (!searched || !point.estimated);
  };
}

}  // namespace

std::vector<SweepPoint*> Promising(const std::vector<GridAxis>& grid,
                                   size_t most,
                                   std::vector<SweepPoint>* points) {
  std::vector<SweepPoint*> promising;
  auto all = [](const SweepPoint&) { return true; };
  for (auto& group : Grouped(grid, TellsKindsApart, all, points)) {
    bool any_fits =
        absl::c_any_of(group, [](SweepPoint* point) { return point->fits; });
    auto loss = [&](const SweepPoint* point) {
      return any_fits ? point->makespan_us + point->lower_bound_us
                      : static_cast<double>(point->peak_bytes);
    };
    if (any_fits) std::erase_if(group, [](SweepPoint* p) { return !p->fits; });
    absl::c_stable_sort(group, [&](const SweepPoint* a, const SweepPoint* b) {
      return loss(a) < loss(b);
    });
    group.resize(std::min(group.size(), most));
    absl::c_copy(group, std::back_inserter(promising));
  }
  return promising;
}

void MarkPareto(const std::vector<GridAxis>& grid,
                std::vector<SweepPoint>* points) {
  for (const auto& group :
       Grouped(grid, TellsKindsApart, Comparable(*points), points)) {
    for (SweepPoint* point : group) {
      point->pareto = absl::c_none_of(group, [&](const SweepPoint* other) {
        return Beats(*other, *point);
      });
    }
  }
}

void MarkRanks(const std::vector<GridAxis>& grid,
               std::vector<SweepPoint>* points) {
  for (const auto& group :
       Grouped(grid, TellsWorkApart, Comparable(*points), points)) {
    for (SweepPoint* point : group) {
      point->rank = 1;
      for (const SweepPoint* other : group) {
        point->rank += IsFaster(*other, *point) ? 1 : 0;
        point->tie |= other != point && AreTied(*other, *point);
      }
    }
  }
}

}  // namespace asyra
