// The memory of a training step, by purpose.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/program.h"
#include "nlohmann/json_fwd.hpp"
#include "simulator/machine/machine.h"
#include "simulator/replay/replay.h"

namespace asyra {

struct MemoryPart {
  std::string name;
  int64_t bytes = 0;
};

// Bytes of one device when most of them are live, by what they are for; parts
// without bytes are left out.
// - parameters: what is trained, in the type that the model computes in, and
//   what is made of it alone (gathered, transposed)
// - master: parameters in f32 that the model reads in 16 bits
// - moments: the optimizer's states
// - gradients: of parameters, on the way to the updates
// - stash: results of forward ops that backward ones read
// - inputs: data, constants, weights that are not trained
// - values: everything else that is live then
// The sum of these is the peak of live bytes (MemoryReport). Then
// - placement: rounding, and gaps between values in the arena
// - workspace: of kernels
// - libraries: context, communicators
// The sum of all is MemoryReport::device_bytes. Empty if `program`, which
// `result` is the replay of, is no training step.
std::vector<MemoryPart> StepMemory(const Program& program,
                                   const SimResult& result,
                                   const Machine& machine);

// A row for each, and their sum; empty if there are none.
std::string StepMemoryText(const std::vector<MemoryPart>& parts);
// {"parameters": bytes, ...}
nlohmann::json StepMemoryJson(const std::vector<MemoryPart>& parts);

}  // namespace asyra
