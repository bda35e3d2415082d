// Cost noise, as the estimates of a cost model have: a schedule that is better
// at all samples of it is robust.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "ir/program.h"
#include "simulator/cost_model.h"
#include "simulator/costed_program.h"

namespace asyra {

// The largest relative noise of a cost.
inline constexpr double kCostNoise = 0.1;

// `op_costs` of the program, each times a factor within 1 +- kCostNoise. It
// follows from the seed and from what the op is (its definition, and its axes
// where it communicates), so that the noise is the same for all ops of a kind
// and in any program.
std::vector<OpCost> NoisyCosts(const Program& program,
                               absl::Span<const OpCost> op_costs,
                               uint64_t seed);

// Whether `after`, its ops issued in `order`, is no slower than `before` in its
// own at each of a number of noise samples.
bool IsRobustToNoise(const CostedProgram& before, const CostedProgram& after,
                     absl::Span<const int> order);

}  // namespace asyra
