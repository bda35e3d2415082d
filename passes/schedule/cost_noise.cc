#include "passes/schedule/cost_noise.h"

#include "ir/support/hash.h"
#include "ir/support/random.h"
#include "simulator/replay.h"

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
  constexpr ReplayOptions kTimeAlone = {
      .memory = false, .lower_bound = false, .critical_path = false};
  auto noisy = [](const CostedProgram& costed, uint64_t seed) {
    return CostedProgram(costed,
                         NoisyCosts(costed.program(), costed.op_costs(), seed));
  };
  for (uint64_t seed = 1; seed <= kSamples; ++seed) {
    if (Replay(noisy(after, seed), order, kTimeAlone).makespan_us >
        Replay(noisy(before, seed), kTimeAlone).makespan_us) {
      return false;
    }
  }
  return true;
}

}  // namespace asyra
