// f32 params that are stored in halves: the upper 16 bits of all elements, then
// the lower 16 bits of all. The upper half of an element is its value rounded
// to bf16, so that the 16-bit copy that a model computes with is the first half
// of the param's own bytes: it takes no memory, no cast, and the update writes
// it with the param.
//
//   bits = (upper << 16) + lower, with lower as a signed number
//
// Rounding is to nearest even, as cast does it. A value halfway between two
// bf16 that rounds down would need a lower half of +32768: it is stored as the
// f32 just below, which no step can tell from it.
//
// Values of a program are plain f32 in meaning. Which are stored in halves
// follows from the ops that use them: inputs that upper_half reads or whose
// update says so (the attribute kInHalves of adamw and multi_adamw), and what
// such an update gives for them. A rank's part is stored so by itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "ir/program.h"
#include "ir/tensor.h"

namespace asyra {

inline constexpr std::string_view kUpperHalf = "upper_half";
inline constexpr std::string_view kInHalves = "in_halves";

struct Halves {
  uint16_t upper = 0, lower = 0;
};
inline Halves ToHalves(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  if (value != value) return {static_cast<uint16_t>(bits >> 16 | 0x40), 0};
  Halves halves = {static_cast<uint16_t>(bits >> 16),
                   static_cast<uint16_t>(bits)};
  bool is_tie = halves.lower == 0x8000, is_even = halves.upper % 2 == 0;
  if (is_tie && is_even) {
    halves.lower = 0x7fff;
  } else if (halves.lower >= 0x8000) {
    ++halves.upper;
  }
  return halves;
}
inline float FromHalves(Halves halves) {
  uint32_t bits = (uint32_t{halves.upper} << 16) +
                  static_cast<uint32_t>(static_cast<int16_t>(halves.lower));
  float value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// Elements [begin, end) of the `count` that are stored at `to` or `from`, which
// may be unaligned, from and to numbers of type T.
template <typename T>
void StoreHalves(const T* values, int64_t begin, int64_t end, int64_t count,
                 void* to) {
  auto* upper = static_cast<std::byte*>(to) + begin * sizeof(uint16_t);
  std::byte* lower = upper + count * sizeof(uint16_t);
  for (int64_t i = 0; i < end - begin; ++i) {
    Halves halves = ToHalves(static_cast<float>(values[i]));
    std::memcpy(upper + i * sizeof(uint16_t), &halves.upper, sizeof(uint16_t));
    std::memcpy(lower + i * sizeof(uint16_t), &halves.lower, sizeof(uint16_t));
  }
}
template <typename T>
void LoadHalves(const void* from, int64_t begin, int64_t end, int64_t count,
                T* values) {
  auto* upper = static_cast<const std::byte*>(from) + begin * sizeof(uint16_t);
  const std::byte* lower = upper + count * sizeof(uint16_t);
  for (int64_t i = 0; i < end - begin; ++i) {
    Halves halves;
    std::memcpy(&halves.upper, upper + i * sizeof(uint16_t), sizeof(uint16_t));
    std::memcpy(&halves.lower, lower + i * sizeof(uint16_t), sizeof(uint16_t));
    values[i] = FromHalves(halves);
  }
}

// All of an f32 tensor.
Tensor StoredInHalves(const Tensor& plain);
Tensor LoadedFromHalves(const Tensor& stored);

// By value.
std::vector<bool> ValuesInHalves(const Program& program);

// Returns whether an update's attributes say that its params are in halves.
bool UpdatesInHalves(const AttrMap& attrs);
// Returns whether operand or result `k` of the op is in halves.
bool ReadsHalves(const Op& op, size_t k);
bool WritesHalves(const Op& op, size_t k);

}  // namespace asyra
