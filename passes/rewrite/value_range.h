// Bounds on a value's elements, proven from the ops that lead to it.
#pragma once

#include "passes/rewrite/rewriter.h"

namespace asyra {

// Returns a range with all elements except NaN, up to rounding; infinite for
// unknown values, such as the program's data. A float weight without data is
// assumed to have |x| <= 1e4.
Range BoundsOf(Rewriter& in, ValueId value);

}  // namespace asyra
