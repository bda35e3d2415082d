#include "simulator/replay/simulate.h"

#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "simulator/replay/replayer.h"
#include "simulator/replay/step_clock.h"

namespace asyra {
namespace {

SimResult SimulateAtItsClock(const Program& program, const CostModel& costs,
                             const ReplayOptions& options) {
  CostedProgram costed(program, costs);
  SimResult result = Replay(costed, options);
  result.op_costs = costed.TakeCosts();
  if (costs.clock_mhz() == 0 || result.makespan_us <= 0) return result;
  result.clock_mhz = costs.clock_mhz();
  result.watts =
      WattsAt(*costs.machine().gpu.power, SumOfEnergies(result.op_costs),
              result.clock_mhz, result.makespan_us);
  return result;
}

// The clock of the program in long rows of steps.
double ClockOf(const Program& program, const CostModel& costs,
               ReplayOptions options) {
  CostedProgram measured(program, costs);
  std::vector<int> order(program.ops.size());
  std::iota(order.begin(), order.end(), 0);
  options.critical_path = false;
  options.limit_us = std::numeric_limits<double>::infinity();
  auto us_at = [&](double mhz) {
    CostedProgram costed(measured, EstimateCosts(program, costs.AtClock(mhz)));
    return Replayer(costed).Run(order, options).makespan_us;
  };
  return StepClock(*costs.machine().gpu.power,
                   SumOfEnergies(measured.op_costs()), us_at);
}

}  // namespace

SimResult Simulate(const Program& program, const CostModel& costs,
                   const ReplayOptions& options) {
  bool has_clock =
      costs.clock_mhz() == 0 && costs.machine().gpu.power.has_value();
  if (!has_clock) return SimulateAtItsClock(program, costs, options);
  return SimulateAtItsClock(
      program, costs.AtClock(ClockOf(program, costs, options)), options);
}

}  // namespace asyra
