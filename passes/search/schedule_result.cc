#include "passes/search/schedule_result.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "fmt/format.h"

namespace asyra {

std::string GainsTooLittle(double us, double least_gain, double other_us,
                           std::string_view other) {
  return fmt::format(
      "gains {:.1f} % over {}, and estimates of it are up to {:.0f} % too good",
      100 * (1 - us / other_us), other, 100 * least_gain);
}

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
