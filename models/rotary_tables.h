// Data of rotary tables, which built-in models leave open.
#pragma once

#include "ir/program.h"

namespace asyra {

// Gives tables of rotary embedding that have no data cos and sin of position *
// base^(-i / size). `base` is that of RotaryBase (models/models.h).
void AddRotaryTables(double base, Program* program);

}  // namespace asyra
