#include "executor/train/window_order.h"

#include "ir/support/random.h"

namespace asyra {
namespace {

constexpr int kRounds = 6;

}  // namespace

WindowOrder::WindowOrder(int64_t count, int64_t seed, int64_t epoch)
    : count_(count),
      seed_(static_cast<uint64_t>(seed)),
      epoch_(static_cast<uint64_t>(epoch)),
      half_bits_(1) {
  while ((uint64_t{1} << (2 * half_bits_)) < static_cast<uint64_t>(count)) {
    ++half_bits_;
  }
}

int64_t WindowOrder::At(int64_t index) const {
  auto value = static_cast<uint64_t>(index);
  do {
    value = Permute(value);
  } while (value >= static_cast<uint64_t>(count_));
  return static_cast<int64_t>(value);
}

uint64_t WindowOrder::Permute(uint64_t value) const {
  uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = value >> half_bits_, right = value & mask;
  for (uint32_t round = 0; round < kRounds; ++round) {
    std::array<uint32_t, 4> words = Philox(
        {static_cast<uint32_t>(right), static_cast<uint32_t>(epoch_),
         static_cast<uint32_t>(epoch_ >> 32), round},
        {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)});
    uint64_t next = left ^ (words[0] & mask);
    left = right;
    right = next;
  }
  return (left << half_bits_) | right;
}

}  // namespace asyra
