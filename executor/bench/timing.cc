#include "executor/bench/timing.h"

#include <algorithm>
#include <cmath>

#include "ir/support/check.h"
#include "ir/support/median.h"

namespace asyra {

int LaunchesFor(double us, double one_us, int most) {
  return static_cast<int>(
      std::clamp<double>(std::ceil(us / std::max(one_us, 1e-3)), 1, most));
}

Timing TimingOf(std::vector<double> samples_us) {
  ASYRA_CHECK(!samples_us.empty());
  std::sort(samples_us.begin(), samples_us.end());
  size_t size = samples_us.size();
  double median = Median(samples_us);
  double middle = samples_us[size - 1 - size / 4] - samples_us[size / 4];
  return {.us = median,
          .spread = median > 0 ? middle / median : 0,
          .samples = static_cast<int>(size)};
}

}  // namespace asyra
