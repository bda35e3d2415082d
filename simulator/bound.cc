#include "simulator/bound.h"

#include <algorithm>
#include <vector>

namespace asyra {

double LowerBoundUs(const Program& program, absl::Span<const OpCost> prices,
                    const Dependencies& dependencies, bool contention) {
  std::vector<double> end(program.ops.size(), 0);
  std::vector<double> streams(program.streams.size() + 1, 0);
  std::vector<double> communicators(dependencies.communicators().size(), 0);
  std::array<double, kNumResources> loads = {};
  double bound = 0;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const OpCost& price = prices[i];
    double start = 0;
    for (int before : dependencies.DataOf(static_cast<int>(i))) {
      start = std::max(start, end[before]);
    }
    end[i] = start + price.time_us;
    bound = std::max(bound, end[i]);
    if (int group = dependencies.CommunicatorOf(static_cast<int>(i));
        group >= 0) {
      communicators[group] += price.time_us;
    }
    if (!price.is_compute) continue;
    streams[program.ops[i].stream + 1] += price.time_us;
    for (int r = 0; r < kNumResources; ++r) {
      loads[r] += price.load[r] * price.time_us;
    }
  }
  for (double busy : streams) bound = std::max(bound, busy);
  for (double busy : communicators) bound = std::max(bound, busy);
  if (contention) {
    for (double load : loads) bound = std::max(bound, load);
  }
  return bound;
}

}  // namespace asyra
