// Random bits that follow from a key and a position, so that a value does not
// depend on how it is sharded, and can be drawn again.
#pragma once

#include <array>
#include <cstdint>

namespace asyra {

// Philox4x32 of ten rounds (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011): four words for each counter under a key.
std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> counter,
                               std::array<uint32_t, 2> key);

// The stream of words of a seed and a stream number: word i is word i % 4 of
// the block with counter (i / 4, stream).
class RandomStream {
 public:
  RandomStream(uint64_t seed, uint64_t stream) : seed_(seed), stream_(stream) {}
  uint32_t Word(uint64_t i);

 private:
  uint64_t seed_, stream_;
  uint64_t block_ = ~uint64_t{0};  // no block has this number
  std::array<uint32_t, 4> words_{};
};

}  // namespace asyra
