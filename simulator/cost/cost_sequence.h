// The cost of ops that run one after the other, as one op.
#pragma once

#include "simulator/cost/op_cost.h"

namespace asyra {

class CostSequence {
 public:
  void Add(const OpCost& cost);
  // Loads are shared out over the time that all of them take; the limit is that
  // of the longest, the source the least certain.
  OpCost Sum() const;

 private:
  OpCost sum_ = {.is_compute = true};  // loads times their op's time
  double longest_us_ = 0;
};

}  // namespace asyra
