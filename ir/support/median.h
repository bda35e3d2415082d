// The middle of measured values.
#pragma once

#include <algorithm>
#include <vector>

#include "ir/support/check.h"

namespace asyra {

// Returns the median of at least one value; of an even number of them, the mean
// of the two in the middle.
inline double Median(std::vector<double> values) {
  ASYRA_CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  size_t size = values.size();
  return (values[(size - 1) / 2] + values[size / 2]) / 2;
}

}  // namespace asyra
