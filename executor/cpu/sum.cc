#include "executor/cpu/sum.h"

#include <algorithm>

#include "executor/cpu/number.h"
#include "ir/ops/integers.h"

namespace asyra {
namespace {

// A block of this size stays in the first level cache.
constexpr int64_t kBlock = 512;

template <typename N>
void Sum(absl::Span<const std::byte* const> parts, int64_t elements,
         std::byte* to) {
  using Stored = typename N::Stored;
  using Computed = typename N::Computed;
  Computed sum[kBlock];
  for (int64_t begin = 0; begin < elements; begin += kBlock) {
    int64_t count = std::min(kBlock, elements - begin);
    for (size_t p = 0; p < parts.size(); ++p) {
      const Stored* part = reinterpret_cast<const Stored*>(parts[p]) + begin;
      for (int64_t i = 0; i < count; ++i) {
        Computed value = N::Load(part[i]);
        sum[i] = p == 0 ? value : ops::Plus(sum[i], value);
      }
    }
    Stored* out = reinterpret_cast<Stored*>(to) + begin;
    for (int64_t i = 0; i < count; ++i) out[i] = N::Store(sum[i]);
  }
}

}  // namespace

void SumParts(DType dtype, absl::Span<const std::byte* const> parts,
              int64_t elements, std::byte* to) {
  cpu::WithNumber(
      dtype, [&](auto number) { Sum<decltype(number)>(parts, elements, to); });
}

}  // namespace asyra
