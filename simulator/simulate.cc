#include "simulator/simulate.h"

namespace asyra {

SimResult Simulate(const Program& program, const CostModel& costs,
                   const ReplayOptions& options) {
  std::vector<OpCost> prices = PriceOps(program, costs);
  SimResult result = Replay(program, prices, options);
  result.prices = std::move(prices);
  return result;
}

}  // namespace asyra
