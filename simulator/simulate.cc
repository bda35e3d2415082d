#include "simulator/simulate.h"

namespace asyra {

SimResult Simulate(const Program& program, const CostModel& costs,
                   const ReplayOptions& options) {
  PricedProgram priced(program, costs);
  SimResult result = Replay(priced, options);
  result.prices = priced.TakePrices();
  return result;
}

}  // namespace asyra
