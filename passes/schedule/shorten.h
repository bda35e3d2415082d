// A program of fewer layers, for fast experiments.
#pragma once

#include "ir/program.h"

namespace asyra {

// `program` (stage global or local) with at most `layers` of each stretch of
// equal layers (repeats.h): readers of the last layer read the last one kept.
// Inputs stay, and with them the resident memory; outputs of removed layers are
// removed. The program itself if nothing repeats more often, or if results of
// layers are read elsewhere than in the next layer and after the last.
Program Shorten(const Program& program, int layers);

}  // namespace asyra
