// Dependences in a program, through any number of ops.
#pragma once

#include <vector>

#include "ir/program.h"

namespace asyra {

// Each from marks by value to marks by op. Of joined collectives and their
// waits, a result depends on its own operand alone.

// Returns the ops that the values marked in `needed` depend on.
std::vector<bool> Ancestors(const Program& program, std::vector<bool> needed);
// Returns the ops that depend on the values marked in `reached`.
std::vector<bool> Descendants(const Program& program,
                              std::vector<bool> reached);

}  // namespace asyra
