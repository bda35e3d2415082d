// Costs with an error, as those of a cost model have: a schedule that is
// better under all of them is better for a reason.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "ir/program.h"
#include "simulator/cost_model.h"
#include "simulator/costed_program.h"

namespace asyra {

// How far off a cost may be, of 1.
inline constexpr double kCostError = 0.1;

// `op_costs` of the program, each times a factor within 1 +- kCostError. It
// follows from the seed and from what the op is (its definition, and its axes
// where it communicates), so that an error is the same for all ops of a kind
// and in any program.
std::vector<OpCost> PerturbedCosts(const Program& program,
                                   absl::Span<const OpCost> op_costs,
                                   uint64_t seed);

// Whether `after`, its ops issued in `order`, is no slower than `before` in its
// own at each of a number of errors.
bool SurvivesErrors(const CostedProgram& before, const CostedProgram& after,
                    absl::Span<const int> order);

}  // namespace asyra
