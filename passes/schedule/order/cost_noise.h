// Cost noise models the errors of cost estimates: a schedule that is better in
// all noise samples is robust.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "ir/program.h"
#include "simulator/cost/cost_model.h"
#include "simulator/replay/costed_program.h"

namespace asyra {

// The largest relative noise of a cost.
inline constexpr double kCostNoise = 0.1;

// Returns `op_costs` of the program, each times a factor within 1 +-
// kCostNoise. It depends on the seed and the op's definition (and its axes if
// it communicates), so that all ops of a kind have the same noise, in any
// program.
std::vector<OpCost> NoisyCosts(const Program& program,
                               absl::Span<const OpCost> op_costs,
                               uint64_t seed);

// Returns whether `after`, issued in `order`, is no slower than `before` in its
// own order, in each of several noise samples.
bool IsRobustToNoise(const CostedProgram& before, const CostedProgram& after,
                     absl::Span<const int> order);

}  // namespace asyra
