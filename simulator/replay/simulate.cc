#include "simulator/replay/simulate.h"

#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "simulator/cost/energy.h"
#include "simulator/replay/replayer.h"
#include "simulator/replay/step_clock.h"

namespace asyra {
namespace {

// The program with costs at a clock; `measured` has those of measurements.
CostedProgram AtClock(const CostedProgram& measured, const GpuPower& power,
                      double mhz) {
  std::vector<OpCost> op_costs(measured.op_costs().begin(),
                               measured.op_costs().end());
  for (OpCost& cost : op_costs) SetClock(power, mhz, &cost);
  return CostedProgram(measured, std::move(op_costs));
}

// Returns the clock of the program in long rows of steps.
double ClockOf(const CostedProgram& measured, const GpuPower& power,
               ReplayOptions options) {
  std::vector<int> order(measured.program().ops.size());
  std::iota(order.begin(), order.end(), 0);
  options.critical_path = false;
  options.limit_us = std::numeric_limits<double>::infinity();
  auto us_at = [&](double mhz) {
    CostedProgram costed = AtClock(measured, power, mhz);
    return Replayer(costed).Run(order, options).makespan_us;
  };
  return StepClock(power, SumOfEnergies(measured.op_costs()), us_at);
}

SimResult ReplayAtClock(CostedProgram costed,
                        const std::optional<GpuPower>& power, double mhz,
                        const ReplayOptions& options) {
  SimResult result = Replay(costed, options);
  result.op_costs = costed.TakeCosts();
  if (mhz == 0 || result.makespan_us <= 0) return result;
  result.clock_mhz = mhz;
  result.watts =
      WattsAt(*power, SumOfEnergies(result.op_costs), mhz, result.makespan_us);
  return result;
}

}  // namespace

SimResult Simulate(const Program& program, const CostModel& costs,
                   const ReplayOptions& options) {
  CostedProgram costed(program, costs);
  const std::optional<GpuPower>& power = costs.machine().gpu.power;
  double mhz = costs.clock_mhz();
  if (mhz > 0 || !power.has_value()) {
    return ReplayAtClock(std::move(costed), power, mhz, options);
  }
  mhz = ClockOf(costed, *power, options);
  return ReplayAtClock(AtClock(costed, *power, mhz), power, mhz, options);
}

}  // namespace asyra
