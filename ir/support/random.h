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

// Word `i` of the sequence under a key: SplitMix64 (Steele, Lea and Flood,
// "Fast splittable pseudorandom number generators", OOPSLA 2014). A few
// operations a word, for values of which only the distribution matters.
inline uint64_t SplitMix(uint64_t key, uint64_t i) {
  uint64_t z = key + (i + 1) * 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

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
