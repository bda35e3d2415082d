// Joins the chunks of a rank's order into groups that are computed at once:
// larger groups compute faster, smaller ones hide more.
//
// FlashOverlap (its algorithm 1) tries partitions of the waves of a matmul,
// pruned to a few first and last sizes, by the recurrence
//   compute += piece(group),  link = max(compute, link) + move(group)
// Here all partitions count: an exact dynamic program over positions keeps, for
// each, the pairs of ends that no other pair beats in both.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/types/span.h"

namespace asyra {

// Microseconds of a group of so many chunks, at least 1.
using GroupCost = std::function<double(int64_t chunks)>;

struct GroupPlan {
  std::vector<int64_t> groups;  // sizes, in order
  double time_us = 0;           // by the recurrence
};

// Chunks that are computed and then moved: what comes out is available when the
// last group has been moved. `chunks` is at least 1.
GroupPlan BestGroupsToMove(int64_t chunks, const GroupCost& piece_us,
                           const GroupCost& move_us);

// The time of given groups by the same recurrence.
double TimeToMove(absl::Span<const int64_t> groups, const GroupCost& piece_us,
                  const GroupCost& move_us);

// Chunks that are computed once they have come: chunk i is available at
// `arrival_us[i]`, ascending, and a group waits for its last.
GroupPlan BestGroupsOfArrivals(absl::Span<const double> arrival_us,
                               const GroupCost& piece_us);
double TimeOfArrivals(absl::Span<const int64_t> groups,
                      absl::Span<const double> arrival_us,
                      const GroupCost& piece_us);

}  // namespace asyra
