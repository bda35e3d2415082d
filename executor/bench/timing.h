// Statistics of repeated measurements.
#pragma once

#include <vector>

namespace asyra {

struct Timing {
  double us = 0;      // the median
  double spread = 0;  // width of the middle half, as a part of the median
  int samples = 0;
  double mhz = 0;  // the device's clock meanwhile, in the mean; 0: not known
};

// Returns how many launches in a row take about `us` together, of which one
// takes `one_us`: 1 to `most`.
int LaunchesFor(double us, double one_us, int most);

// Returns the statistics of samples, at least one.
Timing TimingOf(std::vector<double> samples_us);

}  // namespace asyra
