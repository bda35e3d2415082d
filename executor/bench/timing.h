// Statistics of repeated measurements.
#pragma once

#include <vector>

namespace asyra {

struct Timing {
  double us = 0;      // the median
  double spread = 0;  // width of the middle half, as a part of the median
  int samples = 0;
};

// Returns the statistics of samples, at least one.
Timing TimingOf(std::vector<double> samples_us);

}  // namespace asyra
