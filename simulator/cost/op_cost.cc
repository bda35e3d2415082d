#include "simulator/cost/op_cost.h"

#include <algorithm>

namespace asyra {

void OpCost::Stretch(double times) {
  time_us *= times;
  for (int r = 0; r < kNumResources; ++r) {
    if (r != kSms && r != kCtaSlots) load[r] = std::min(1.0, load[r] / times);
  }
}

std::string_view ToString(OpCost::Source source) {
  constexpr std::string_view kNames[] = {"measured", "interpolated",
                                         "extrapolated", "formula"};
  return kNames[source];
}

std::string_view ToString(OpCost::Limit limit) {
  constexpr std::string_view kNames[] = {"nothing", "latency", "math",
                                         "memory",  "link",    "network"};
  return kNames[limit];
}

std::string_view ToString(Resource resource) {
  constexpr std::string_view kNames[] = {
      "sms", "hbm", "link", "network", "copy engines", "CTA slots"};
  static_assert(std::size(kNames) == kNumResources);
  return kNames[resource];
}

}  // namespace asyra
