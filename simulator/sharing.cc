#include "simulator/sharing.h"

#include <algorithm>

namespace asyra {
namespace {

// How far the speed of the ops in `rising` can go before a resource is full,
// and which resource that is (kNumResources: none before full speed).
double RiseTo(absl::Span<const OpCost* const> active,
              const std::vector<char>& rising,
              const std::vector<double>& speeds, int* full) {
  double level = 1;
  *full = kNumResources;
  for (int r = 0; r < kNumResources; ++r) {
    double wanted = 0, left = 1;
    for (size_t i = 0; i < active.size(); ++i) {
      if (rising[i]) {
        wanted += active[i]->load[r];
      } else {
        left -= active[i]->load[r] * speeds[i];
      }
    }
    if (wanted * level <= left) continue;
    level = std::max(left, 0.0) / wanted;
    *full = r;
  }
  return level;
}

void SlowCollectives(absl::Span<const OpCost* const> active,
                     std::vector<double>* speeds) {
  double filled = 0;
  for (const OpCost* op : active) {
    if (op->is_compute) filled += op->load[kSms];
  }
  filled = std::min(filled, 1.0);
  for (size_t i = 0; i < active.size(); ++i) {
    (*speeds)[i] *= 1 - filled * (1 - active[i]->beside_compute);
  }
}

}  // namespace

void ShareResources(absl::Span<const OpCost* const> active,
                    std::vector<double>* speeds) {
  speeds->assign(active.size(), 1);
  if (active.size() < 2) return;
  std::vector<char> rising(active.size(), 1);
  for (int round = 0; round < kNumResources; ++round) {
    int full;
    double level = RiseTo(active, rising, *speeds, &full);
    for (size_t i = 0; i < active.size(); ++i) {
      if (!rising[i]) continue;
      (*speeds)[i] = level;
      if (full < kNumResources && active[i]->load[full] > 0) rising[i] = 0;
    }
    if (full == kNumResources) break;
  }
  SlowCollectives(active, speeds);
}

}  // namespace asyra
