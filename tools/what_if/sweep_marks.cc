#include "tools/what_if/sweep_marks.h"

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

}  // namespace

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

}  // namespace asyra
