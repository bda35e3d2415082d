// Values that surely differ, for rules that must not refuse what is computed
// twice.
#pragma once

#include "ir/program.h"

namespace asyra {

// Returns whether two values are different inputs, different results or tiles
// of one value, or results of equal ops of which some operands differ so. False
// also where that is not seen.
bool SurelyDiffer(const Program& program, const DefUse& def_use, ValueId a,
                  ValueId b);

}  // namespace asyra
