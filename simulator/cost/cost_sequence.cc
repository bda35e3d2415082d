#include "simulator/cost/cost_sequence.h"

#include <algorithm>

namespace asyra {

void CostSequence::Add(const OpCost& cost) {
  sum_.time_us += cost.time_us;
  if (cost.limit == OpCost::kMath) sum_.math_us += cost.math_us;
  sum_.energy.Add(cost.energy);
  for (int r = 0; r < kNumResources; ++r) {
    sum_.load[r] += cost.load[r] * cost.time_us;
  }
  sum_.source = std::max(sum_.source, cost.source);
  if (cost.time_us < longest_us_) return;
  longest_us_ = cost.time_us;
  sum_.limit = cost.limit;
}

OpCost CostSequence::Sum() const {
  OpCost sum = sum_;
  for (double& load : sum.load) {
    load = sum.time_us > 0 ? load / sum.time_us : 0;
  }
  return sum;
}

}  // namespace asyra
