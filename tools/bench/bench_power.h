// The power of a GPU under a few loads, and what follows of its energies and
// its clock (GpuPower of simulator/machine/machine.h).
#pragma once

#include <string>
#include <vector>

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

// `types`: the element types whose matmuls the machine has a rate of, bf16
// among them. `copy_engines`: these carry the gather, else the library does.
std::vector<MeasuredLoad> PowerLoads(const std::vector<std::string>& types,
                                     int ranks, bool copy_engines);

// Without a kLink, `pj_link` is 0. Errors: a load that cannot be read; bf16
// matmuls that take no more power than nothing.
absl::StatusOr<GpuPower> PowerOf(absl::Span<const MeasuredLoad> loads,
                                 int ranks);

// A line for each load, and the numbers that follow.
std::string PowerText(absl::Span<const MeasuredLoad> loads,
                      const GpuPower& power);

}  // namespace asyra
