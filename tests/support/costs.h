// What the ops of a test's program cost on a machine.
#pragma once

#include <string_view>

#include "ir/program.h"
#include "ir/support/check.h"
#include "simulator/cost/cost_model.h"
#include "simulator/cost/load_machine.h"
#include "simulator/machine/machine.h"

namespace asyra {

inline CostModel Costs(const Program& program,
                       std::string_view machine = "h200x8") {
  return CostModel(ASYRA_VALUE(LoadMachine(machine)), program.mesh);
}

}  // namespace asyra
