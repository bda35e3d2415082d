#include "simulator/replay/step_clock.h"

#include <algorithm>
#include <cmath>

#include "simulator/cost/energy.h"

namespace asyra {
namespace {

// The lowest clock, of the highest.
constexpr double kLeastShare = 0.05;
constexpr double kTolerance = 1e-5;  // of the power
constexpr int kMostReplays = 12;
// The power beyond idling grows about so with the clock: energy and rate do.
constexpr double kUsualSlope = 1.3;

// A root of a rising function of the clock: how far the power is above its
// limit, both beyond idling, as logarithms.
class ClockSearch {
 public:
  explicit ClockSearch(const GpuPower& power)
      : low_(kLeastShare * power.most_mhz), high_(power.most_mhz) {}

  // Returns the clock to try after this one.
  double After(double mhz, double above) {
    (above > 0 ? high_ : low_) = mhz;
    double slope = kUsualSlope;
    if (last_mhz_ > 0 && last_mhz_ != mhz) {
      slope = (above - last_above_) / std::log(mhz / last_mhz_);
    }
    last_mhz_ = mhz;
    last_above_ = above;
    double next = slope > 0 ? mhz * std::exp(-above / slope) : 0;
    if (next > high_) return high_;
    return next > low_ ? next : std::sqrt(low_ * high_);
  }

 private:
  double low_, high_;  // around the root
  double last_mhz_ = 0, last_above_ = 0;
};

}  // namespace

OpEnergy SumOfEnergies(absl::Span<const OpCost> op_costs) {
  OpEnergy sum;
  for (const OpCost& cost : op_costs) sum.Add(cost.energy);
  return sum;
}

double WattsAt(const GpuPower& power, const OpEnergy& energy, double mhz,
               double us) {
  double math = energy.math_uj * std::pow(mhz / power.most_mhz, power.exponent);
  return power.idle_w + (math + energy.bytes_uj) / us;
}

double UsAtItsClock(const CostedProgram& costed, double us) {
  if (costed.clock_mhz() == 0 || us <= 0) return us;
  const GpuPower& power = costed.power();
  double math_us = 0;
  for (const OpCost& cost : costed.op_costs()) {
    if (cost.math_us > cost.memory_us) math_us += cost.math_us;
  }
  math_us = std::min(math_us, us);
  double here = MathFactor(power, costed.clock_mhz());
  auto us_at = [&](double mhz) {
    return us + math_us * (MathFactor(power, mhz) / here - 1);
  };
  return us_at(StepClock(power, SumOfEnergies(costed.op_costs()), us_at));
}

double StepClock(const GpuPower& power, const OpEnergy& energy,
                 absl::FunctionRef<double(double mhz)> us_at) {
  ClockSearch search(power);
  double mhz = power.measured_mhz;
  for (int i = 0; i < kMostReplays; ++i) {
    double us = us_at(mhz);
    if (us <= 0) return power.most_mhz;
    double watts = WattsAt(power, energy, mhz, us);
    bool is_free = mhz == power.most_mhz && watts <= power.cap_w;
    if (is_free || std::abs(watts / power.cap_w - 1) < kTolerance) break;
    double above =
        std::log((watts - power.idle_w) / (power.cap_w - power.idle_w));
    mhz = search.After(mhz, above);
  }
  return mhz;
}

}  // namespace asyra
