// Which ops are identical but for their values: the layers of a model, its
// tiles.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "ir/program.h"

namespace asyra {

// By op, a number that ops share which differ at most in the values they read:
// same definition, attributes, stream, operand and result types. Numbers count
// up from 0 in order of appearance.
std::vector<int> OpClasses(const Program& program);

// Finer classes: those of the same class whose operands come from ops of the
// same class, and their operands in turn, `rounds` steps back. What follows
// attention is then told from what follows the MLP.
std::vector<int> RefineClasses(const Program& program, std::vector<int> classes,
                               int rounds);

}  // namespace asyra
