// Bounds on a value's elements, proven from the ops that lead to it.
#pragma once

#include "passes/rewrite/rewriter.h"

namespace asyra {

// All elements that are numbers are within it, up to rounding; infinite where
// nothing is known, as of the program's data. A float weight without data is
// taken for a parameter of ordinary size, |x| <= 1e4.
Range BoundsOf(Rewriter& in, ValueId value);

}  // namespace asyra
