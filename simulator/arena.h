// Places values of known lifetimes in one arena.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace asyra {

// Bytes that are taken in [from, until). Any unit of time, as long as those
// that may share bytes do not overlap.
struct Lifetime {
  int64_t bytes = 0;
  double from = 0;
  double until = 0;
};

struct ArenaPlan {
  int64_t bytes = 0;             // of the arena
  std::vector<int64_t> offsets;  // one per lifetime, multiples of `alignment`
};

// No two values that live at the same time overlap. What lives throughout comes
// first; then several orders of placement are tried (largest first, longest,
// largest product of both, first to begin), each value going to the lowest gap
// that holds it, and the smallest arena is kept. At least the largest sum of
// bytes alive at once; on models within a few percent of it. Values of no bytes
// get offset 0. Deterministic.
ArenaPlan PlanArena(absl::Span<const Lifetime> lifetimes, int64_t alignment);

}  // namespace asyra
