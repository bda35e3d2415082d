// The parts of the catalogue (pass_list.h), each in pipeline order. A new pass
// gets its record in one of them.
#pragma once

#include <vector>

#include "passes/pass.h"

namespace asyra {

// Returns the passes of the model, up to the program that each device runs.
std::vector<PassRecord> GlobalPasses();
// Returns the passes of that program, before it is scheduled.
std::vector<PassRecord> LocalPasses();
// Returns the passes from tiles to the memory plan.
std::vector<PassRecord> SchedulePasses();

}  // namespace asyra
