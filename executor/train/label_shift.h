// Tells if a model compares the logits of a token with its label, or with that
// of a later token.
#pragma once

#include <cstdint>

#include "ir/program.h"

namespace asyra {

// Returns the distance in positions from a position to the label that the loss
// takes for it: 0 where the labels are those of their positions, 1 where the
// model itself shifts them, as logits[:, :-1] and labels[:, 1:] do; the least
// where there are several. 0 where nothing tells it.
//
// Follows the input `labels` of a program of any stage to the ops that look up
// classes by them, and the logits of these ops back, through ops that leave
// positions in their places; slices, padding and concatenation move them.
int64_t LabelShift(const Program& program);

}  // namespace asyra
