#include "passes/schedule/perturbation.h"

#include "ir/support/hash.h"
#include "ir/support/random.h"
#include "simulator/replay.h"

namespace asyra {

std::vector<OpCost> PerturbedCosts(const Program& program,
                                   absl::Span<const OpCost> op_costs,
                                   uint64_t seed) {
  std::vector<OpCost> perturbed(op_costs.begin(), op_costs.end());
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    uint64_t kind = Fnv1a(op.def->name);
    if (op.is_collective()) {
      for (AxisId axis : op.attrs.Get<AxisList>("axes")) {
        kind = kind * 31 + static_cast<uint64_t>(axis) + 1;
      }
    }
    double unit = RandomStream(seed, kind).Word(0) * 0x1p-32;
    perturbed[i].time_us *= 1 + kCostError * (2 * unit - 1);
  }
  return perturbed;
}

bool SurvivesErrors(const CostedProgram& before, const CostedProgram& after,
                    absl::Span<const int> order) {
  constexpr uint64_t kErrors = 8;
  constexpr ReplayOptions kTimeAlone = {
      .memory = false, .lower_bound = false, .critical_path = false};
  auto erring = [](const CostedProgram& costed, uint64_t seed) {
    return CostedProgram(
        costed, PerturbedCosts(costed.program(), costed.op_costs(), seed));
  };
  for (uint64_t seed = 1; seed <= kErrors; ++seed) {
    if (Replay(erring(after, seed), order, kTimeAlone).makespan_us >
        Replay(erring(before, seed), kTimeAlone).makespan_us) {
      return false;
    }
  }
  return true;
}

}  // namespace asyra
