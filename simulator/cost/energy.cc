#include "simulator/cost/energy.h"

#include <algorithm>

#include "ir/type.h"

namespace asyra {
namespace {

constexpr double kMicrojoules = 1e-6;  // a picojoule

}  // namespace

OpEnergy EnergyOf(const Gpu& gpu, const Work& work, DType dtype) {
  OpEnergy energy;
  if (!gpu.power.has_value()) return energy;
  const GpuPower& power = *gpu.power;
  auto matrix = power.pj_matrix.find(ToString(dtype));
  double pj = work.matrix && matrix != power.pj_matrix.end() ? matrix->second
                                                             : power.pj_vector;
  energy.math_uj =
      (work.flops * pj + work.vector_flops * power.pj_vector) * kMicrojoules;
  energy.bytes_uj = MemoryEnergyUj(gpu, work.read_bytes + work.write_bytes);
  return energy;
}

double MemoryEnergyUj(const Gpu& gpu, double bytes) {
  return gpu.power.has_value() ? bytes * gpu.power->pj_hbm * kMicrojoules : 0;
}

double LinkEnergyUj(const Gpu& gpu, double bytes) {
  return gpu.power.has_value() ? bytes * gpu.power->pj_link * kMicrojoules : 0;
}

double MathFactor(const GpuPower& power, double mhz) {
  return 1 + power.clock_share * (power.measured_mhz / mhz - 1);
}

void SetClock(const GpuPower& power, double mhz, OpCost* cost) {
  double math_us = cost->math_us * MathFactor(power, mhz);
  double before_us = std::max(cost->math_us, cost->memory_us);
  double longer_us = std::max(math_us, cost->memory_us) - before_us;
  cost->math_us = math_us;
  if (longer_us == 0) return;
  cost->Stretch(1 + longer_us / cost->time_us);
}

}  // namespace asyra
