// The best points of a sweep, among those that compare.
#pragma once

#include <cstddef>
#include <vector>

#include "tools/what_if/sweep.h"

namespace asyra {

// Returns the points that promise most: `most` of each kind that fit, the
// smallest where none fits, by the mean of the unscheduled time and the lower
// bound, between which schedules come to lie.
std::vector<SweepPoint*> Promising(const std::vector<GridAxis>& grid,
                                   size_t most,
                                   std::vector<SweepPoint>* points);

// Sets `pareto` of the points.
void MarkPareto(const std::vector<GridAxis>& grid,
                std::vector<SweepPoint>* points);

// Sets `rank` and `tie` of the points.
void MarkRanks(const std::vector<GridAxis>& grid,
               std::vector<SweepPoint>* points);

}  // namespace asyra
