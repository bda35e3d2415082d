#include "executor/bench/timing.h"

#include <algorithm>

#include "ir/support/check.h"
#include "ir/support/median.h"

namespace asyra {

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
