// The slots that experts get (moe_dispatch), from a capacity factor.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/status/statusor.h"
#include "ir/support/status.h"

namespace asyra {

struct MoeSlots {
  int64_t group_size = 1;
  int64_t capacity = 1;
  // The share of slots that are taken when tokens spread evenly.
  double occupancy = 1;
};

// Tokens that share slots: as many as leave the choices of a group near their
// mean, and enough groups to shard.
inline constexpr int64_t kMoeGroup = 256;

// Slots for `tokens` that choose `chosen` of `experts` each. `percent` is 100
// times the capacity factor of Switch Transformer (Fedus et al. 2021, section
// 2.2): slots over what an even spread needs. 0 has a slot for every choice.
// Errors: sizes below 1, percent below 0.
inline absl::StatusOr<MoeSlots> SlotsFor(int64_t tokens, int64_t experts,
                                         int64_t chosen, int64_t percent) {
  if (tokens < 1 || experts < 1 || chosen < 1 || chosen > experts) {
    return Invalid("{} of {} experts for {} tokens", chosen, experts, tokens);
  }
  if (percent < 0) return Invalid("a capacity of {} percent", percent);
  double even = static_cast<double>(chosen) / static_cast<double>(experts);
  MoeSlots slots;
  if (percent > 0) {
    slots.group_size = std::gcd(kMoeGroup, tokens);
    double needed = static_cast<double>(slots.group_size) * even *
                    static_cast<double>(percent) / 100;
    // Rounded up, except for the remainder of the division by experts.
    slots.capacity = static_cast<int64_t>(std::clamp(
        std::ceil(needed - 1e-6), 1.0, static_cast<double>(slots.group_size)));
  }
  slots.occupancy = std::min(1.0, even * static_cast<double>(slots.group_size) /
                                      static_cast<double>(slots.capacity));
  return slots;
}

}  // namespace asyra
