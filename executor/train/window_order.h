// The order in which an epoch takes the windows of its data.
#pragma once

#include <cstdint>

namespace asyra {

// A permutation of [0, count) that follows from seed and epoch and needs no
// memory: a Feistel network over the next power of four, applied
// again to what is beyond `count` (cycle walking; Black and Rogaway, "Ciphers
// with arbitrary finite domains", CT-RSA 2002). At most four times as large, so
// a window takes four networks at most on average.
class WindowOrder {
 public:
  // `count` is from 1 to 2^62.
  WindowOrder(int64_t count, int64_t seed, int64_t epoch);
  int64_t At(int64_t index) const;

 private:
  uint64_t Permute(uint64_t value) const;

  int64_t count_;
  uint64_t seed_, epoch_;
  int half_bits_;
};

}  // namespace asyra
