#include "passes/search/schedule_result.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace asyra {

double SearchNoise(const std::vector<double>& round_us) {
  if (round_us.empty()) return kLeastNoise;
  if (round_us.size() == 1) return kNoiseOfOneRound;
  double last_us = round_us.back(), before_us = round_us[round_us.size() - 2];
  return std::max(kLeastNoise, before_us / last_us - 1);
}

std::vector<double> BestOfRounds(std::vector<double> a, std::vector<double> b) {
  if (a.size() < b.size()) std::swap(a, b);
  for (size_t i = 0; i < a.size() && !b.empty(); ++i) {
    a[i] = std::min(a[i], b[std::min(i, b.size() - 1)]);
  }
  return a;
}

}  // namespace asyra
