#include "simulator/replay/simulate.h"

namespace asyra {

SimResult Simulate(const Program& program, const CostModel& costs,
                   const ReplayOptions& options) {
  CostedProgram costed(program, costs);
  SimResult result = Replay(costed, options);
  result.op_costs = costed.TakeCosts();
  return result;
}

}  // namespace asyra
