// The layers of a program, found by structure: stretches of equal ops that
// follow one another, each reading what the one before has made. Names play no
// part.
#pragma once

#include <vector>

#include "ir/program.h"

namespace asyra {

// `count` stretches of `period` ops, the first of which begins at op `begin`.
// Count is 2 or more where something repeats; what does not is a repeat of 1.
struct Repeat {
  int begin = 0;
  int period = 0;
  int count = 1;
  int end() const { return begin + period * count; }
};

// The whole program as repeats, in order and without gaps. Two ops are equal
// when definition, attributes and types are; two stretches when also their
// operands correspond: from the same place of the stretch or of the one
// before, inputs of the same role, or one and the same value. Where to cut is
// chosen so that the fewest values cross: at the residual stream.
//
// The longest repeat is taken first, then those before and after it. Time is
// quadratic in the number of ops, with a small constant.
std::vector<Repeat> FindRepeats(const Program& program);

// Values that `repeat` reads in its first stretch and are made before it, and
// those of its last stretch that are read after it or are outputs. Program
// inputs are left out; both in the order of the program.
std::vector<ValueId> ValuesInto(const Program& program, const Repeat& repeat);
std::vector<ValueId> ValuesOutOf(const Program& program, const Repeat& repeat);

}  // namespace asyra
