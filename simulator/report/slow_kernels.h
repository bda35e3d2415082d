// Kernels that are far from what the machine can do.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/program.h"
#include "simulator/cost/cost_model.h"
#include "simulator/replay/replay.h"

namespace asyra {

// Computations of one kind, for one reason.
struct SlowKernels {
  std::string_view op;  // "attention"
  int count = 0;
  double us = 0;    // of all of them, alone
  double rate = 0;  // the least time by arithmetic or bytes over `us`
  std::string why;  // "elements of other than 16 bits"
};

// Finds those whose kernels run below a third of the machine's rates
// (arithmetic of their type, or bytes of device memory, whichever takes longer)
// and that take 2 % of the step or more; longest first. `result` is what
// Simulate gave for the program.
std::vector<SlowKernels> FindSlowKernels(const Program& program,
                                         const SimResult& result,
                                         const CostModel& costs);

// A line for each of the first three: "4 attention ops take 61.2 % of the step
// at 8.3 % of the machine's rate: not on tensor cores, because of a gradient of
// masks or sinks".
std::vector<std::string> SlowKernelNotes(const Program& program,
                                         const SimResult& result,
                                         const CostModel& costs);

}  // namespace asyra
