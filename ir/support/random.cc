#include "ir/support/random.h"

namespace asyra {
namespace {

uint32_t Low(uint64_t value) { return static_cast<uint32_t>(value); }
uint32_t High(uint64_t value) { return static_cast<uint32_t>(value >> 32); }

}  // namespace

std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> counter,
                               std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t a = uint64_t{0xD2511F53} * counter[0];
    uint64_t b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {High(b) ^ counter[1] ^ key[0], Low(b),
               High(a) ^ counter[3] ^ key[1], Low(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

uint32_t RandomStream::Word(uint64_t i) {
  if (i / 4 != block_) {
    block_ = i / 4;
    words_ = Philox({Low(block_), High(block_), Low(stream_), High(stream_)},
                    {Low(seed_), High(seed_)});
  }
  return words_[i % 4];
}

}  // namespace asyra
