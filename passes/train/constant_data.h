// Tells constants of a model from parameters by their data.
#pragma once

#include "ir/tensor.h"

namespace asyra {

// Returns whether elements are 0 and 1, both: a mask that multiplies.
bool IsZeroOneMask(const Tensor& data);
// Returns whether elements are 0 and below -1000, both: a mask that is added.
bool IsAddedMask(const Tensor& data);
// Returns whether all matrices are zero on one side of a diagonal and one
// scalar, the same everywhere, on the other: sums up to, or from, a position. A
// matrix of one scalar alone is none, nor is the identity: weights may begin
// so.
bool IsTriangle(const Tensor& data);
// Returns whether in each matrix elements lie on one plane over row and column,
// with a slope that is not 0 in at least one of them; -inf and elements below
// -1000 aside: scores that fall with the distance of positions.
bool IsPlane(const Tensor& data);
// Returns whether each element is the one before times a factor, the same for
// all, that is not 1; at least three of them: frequencies, or slopes of
// positions.
bool IsGeometric(const Tensor& data);
// Returns whether elements are sines or cosines of positions: along one
// dimension, x[i-1] + x[i+1] = 2 cos(angle) x[i] with one angle for each place
// of the others; or pairs in halves, quarters or neighbours of the last
// dimension have squares that sum to 1. Not where all are equal, nor where all
// are lines.
bool IsSines(const Tensor& data);

}  // namespace asyra
