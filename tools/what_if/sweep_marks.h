// The best points of a sweep, among those that compare.
#pragma once

#include <vector>

#include "tools/what_if/sweep.h"

namespace asyra {

// Sets `pareto` of the points.
void MarkPareto(const std::vector<GridAxis>& grid,
                std::vector<SweepPoint>* points);

// Sets `rank` and `tie` of the points.
void MarkRanks(const std::vector<GridAxis>& grid,
               std::vector<SweepPoint>* points);

}  // namespace asyra
