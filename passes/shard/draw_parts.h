// Random values are drawn where they are needed: a rank draws its part alone.
#pragma once

#include "ir/program.h"

namespace asyra {

// Has ops that can cut their result themselves (attributes `cut` and `axes`)
// do so where a shard is all that reads them. Their values stay the same: they
// follow from the place in the whole.
void DrawParts(Program* program);

}  // namespace asyra
