// The energy of work, and the time of an op at another clock. On a GPU whose
// power is not known (Gpu::power) energies are 0. Equations:
// simulator/README.md.
#pragma once

#include "ir/op_def.h"
#include "simulator/cost/op_cost.h"
#include "simulator/machine/machine.h"

namespace asyra {

// `dtype`: in which matmuls are done.
OpEnergy EnergyOf(const Gpu& gpu, const Work& work, DType dtype);
double MemoryEnergyUj(const Gpu& gpu, double bytes);
// A rank sends so many bytes, and others send it as many.
double LinkEnergyUj(const Gpu& gpu, double bytes);

// Returns what arithmetic takes at this clock over what it takes at
// `measured_mhz`.
double MathFactor(const GpuPower& power, double mhz);
// Changes times and loads from those at `measured_mhz`.
void SetClock(const GpuPower& power, double mhz, OpCost* cost);

}  // namespace asyra
