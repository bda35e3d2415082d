// A program of fewer layers, to try things on.
#pragma once

#include "ir/program.h"

namespace asyra {

// `program` (stage global or local) with at most `layers` of each stretch of
// equal layers (repeats.h): what read the last one reads the last one kept.
// Inputs stay, so that what is resident does; outputs of layers that are gone
// go too. The program itself where nothing repeats more often, or where layers
// are read by more than the next one and what follows the last.
Program Shorten(const Program& program, int layers);

}  // namespace asyra
