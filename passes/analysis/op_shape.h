// The treatment of operand dimensions by an op, derived from its axis rule, so
// that rules that move reshapes and transposes hold for any such op.
#pragma once

#include "ir/program.h"

namespace asyra {

// Returns whether the op has one result, each of whose elements depends on the
// elements of the operands at the same (right aligned, broadcast) place only,
// and on no attribute that names dimensions.
bool IsElementwise(const OpDef& def);

// Returns the same for whole rows: the last dimension is taken whole, the
// others are free, and operands beyond the first are rows of rank 1 (rms_norm).
bool IsRowwise(const OpDef& def);

// Returns whether the op's attribute `dim` names the last dimension of
// `operand`.
bool IsAlongLast(const Op& op, const Type& operand);

// Returns the dimensions of `from` that a reshape to `to` merges into each
// dimension of `to`: begins of consecutive ranges, plus from.size() at the end.
// Empty when the reshape is not a merge into fewer dimensions.
std::vector<int> MergeGroups(const Shape& from, const Shape& to);

}  // namespace asyra
