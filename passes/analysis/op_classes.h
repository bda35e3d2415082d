// Ops that are equal except for the values they read, as in the layers of a
// model and in its tiles.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "ir/program.h"

namespace asyra {

// Returns a class number by op, equal for ops that differ at most in the values
// they read: same definition, attributes, stream, operand and result types.
// Numbers count up from 0 in order of appearance.
std::vector<int> OpClasses(const Program& program);

// Returns finer classes: those of the same class whose operands come from ops
// of the same class, and their operands in turn, `rounds` steps back. This
// distinguishes ops after attention from ops after the MLP.
std::vector<int> RefineClasses(const Program& program, std::vector<int> classes,
                               int rounds);

// A key that programs share which differ only in their layers, or in
// attributes: it identifies a class of RefineClasses(program,
// OpClasses(program), rounds).
struct ClassKey {
  uint64_t exact = 0;    // of all that tells classes apart
  uint64_t similar = 0;  // without attributes and streams
};

// Returns the keys by op; `classes` are OpClasses(program).
std::vector<ClassKey> ClassKeys(const Program& program,
                                const std::vector<int>& classes, int rounds);

}  // namespace asyra
