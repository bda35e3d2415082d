// The layers of a program, found by structure: consecutive stretches of equal
// ops, each reading results of the one before. Names have no influence. In a
// training step the backward layers are a repeat as well: each reads what its
// mirrored forward layer has kept.
#pragma once

#include <vector>

#include "ir/program.h"

namespace asyra {

// `count` stretches of `period` ops, the first of which begins at op `begin`.
// Ops that do not repeat form one stretch with count 1.
struct Repeat {
  int begin = 0;
  int period = 0;
  int count = 1;
  // The index in FindRepeats' result of a repeat that this one reads backwards,
  // and the stretch of it that the first stretch reads. Stretch j reads stretch
  // `mirrored - j`. -1: it mirrors none.
  int mirror_of = -1;
  int mirrored = 0;
  int end() const { return begin + period * count; }
};

// Returns the whole program as repeats, in order and without gaps. Two ops are
// equal when definition, attributes and types are; two stretches when also
// their operands correspond: from the same position of the stretch or of the
// one before, inputs of the same role, the same value, or values of equal ops
// that are as far apart, forwards or backwards, for all stretches. Boundaries
// are where the fewest values cross: at the residual stream.
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
