#include "passes/schedule/order/cost_noise.h"

#include <numeric>

#include "ir/support/hash.h"
#include "ir/support/random.h"
#include "simulator/replay/replayer.h"

namespace asyra {

std::vector<OpCost> NoisyCosts(const Program& program,
                               absl::Span<const OpCost> op_costs,
                               uint64_t seed) {
  std::vector<OpCost> noisy(op_costs.begin(), op_costs.end());
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    uint64_t kind = Fnv1a(op.def->name);
    if (op.is_collective()) {
      for (AxisId axis : op.attrs.Get<AxisList>("axes")) {
        kind = kind * 31 + static_cast<uint64_t>(axis) + 1;
      }
    }
    double unit = RandomStream(seed, kind).Word(0) * 0x1p-32;
    noisy[i].time_us *= 1 + kCostNoise * (2 * unit - 1);
  }
  return noisy;
}

bool IsRobustToNoise(const CostedProgram& before, const CostedProgram& after,
                     absl::Span<const int> order) {
  constexpr uint64_t kSamples = 8;
  std::vector<int> as_it_is(before.op_costs().size());
  std::iota(as_it_is.begin(), as_it_is.end(), 0);
  SharedSpeeds speeds_before(before.op_costs()), speeds(after.op_costs());
  auto noisy_us = [](const CostedProgram& costed, absl::Span<const int> issued,
                     uint64_t seed, SharedSpeeds* kept) {
    CostedProgram noisy(costed,
                        NoisyCosts(costed.program(), costed.op_costs(), seed));
    return Replayer(noisy, kept)
        .Run(issued, {.critical_path = false})
        .makespan_us;
  };
  for (uint64_t seed = 1; seed <= kSamples; ++seed) {
    if (noisy_us(after, order, seed, &speeds) >
        noisy_us(before, as_it_is, seed, &speeds_before)) {
      return false;
    }
  }
  return true;
}

}  // namespace asyra
