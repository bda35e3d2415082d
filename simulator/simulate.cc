#include "simulator/simulate.h"

namespace asyra {

SimResult Simulate(const Program& program, const CostModel& costs,
                   const ReplayOptions& options) {
  return Replay(program, PriceOps(program, costs), options);
}

}  // namespace asyra
