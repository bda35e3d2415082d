// The tile streams of a tiled program. They are read off the program itself:
// `tile` opens a lane, what reads only values of one lane belongs to it, and
// what reads several (`untile`) or none belongs to no lane.
#pragma once

#include <vector>

#include "ir/program.h"

namespace asyra {

inline constexpr int kNoLane = -1;

struct Lanes {
  explicit Lanes(const Program& program);
  std::vector<int> of_op;
  int count = 0;
};

// By value: the dimension along which it is a tile of something larger, or -1.
std::vector<int> TileDims(const Program& program, const Lanes& lanes);

}  // namespace asyra
