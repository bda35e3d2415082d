// The power of a GPU under a few loads, and what follows of its energies and
// its clock (GpuPower of simulator/machine/machine.h).
#pragma once

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "executor/bench/collective_timer.h"
#include "simulator/machine/machine.h"

namespace asyra {

struct MeasuredLoad {
  enum Kind : uint8_t {
    kPause,         // nothing runs
    kMatmul,        // long ones in a row
    kPausedMatmul,  // the same with pauses, so that the clock stays high
    kBytes,         // an op that does little else than move bytes
    kAttention,     // matmuls with arithmetic between them
    kLink,          // a gather, where there are several ranks
  };
  Kind kind;
  std::string dtype;  // of matmuls, "bf16"
  Load load;
  LoadPower power = {};
};

// Matmuls of each type that the machine has a rate of, bf16 among them; a
// gather by copy engines where it has some that reach other GPUs, else by the
// library.
std::vector<MeasuredLoad> PowerLoads(const Machine& machine, int ranks);

// By every rank; the first one keeps the results, and calls `tell` with the
// number of each load before it. Errors: those of RankTimer::PowerOf.
absl::Status MeasureLoads(RankTimer& timer,
                          absl::FunctionRef<void(size_t)> tell,
                          std::vector<MeasuredLoad>* loads);

// Without a kLink, `pj_link` is 0. Errors: a load that cannot be read; bf16
// matmuls that take no more power than nothing.
absl::StatusOr<GpuPower> PowerOf(absl::Span<const MeasuredLoad> loads,
                                 int ranks);

// A line for each load, and the numbers that follow.
std::string PowerText(absl::Span<const MeasuredLoad> loads,
                      const GpuPower& power);

}  // namespace asyra
