// The layout of a generated kernel's operands and results in memory.
#pragma once

#include <vector>

#include "executor/strides.h"
#include "ir/type.h"

namespace asyra::cuda {

// Strides in elements for each dimension of a loop, 0 where an operand is
// repeated, and the first element.
struct Access {
  Shape strides;
  int64_t first = 0;
};

// Sizes of a loop, outermost dimension first: those that number its rows, and
// those inside of a row, which reductions go over. Accesses have strides for
// all of them in this order.
struct Loop {
  Shape rows, columns;
  std::vector<Access> operands, results;
  std::vector<Access> places = {};  // of which only the numbers are needed

  int64_t num_rows() const { return NumElements(rows); }
  int64_t num_columns() const { return NumElements(columns); }
};

// Returns the same loop without dimensions of size 1, and with neighbours
// joined that are contiguous in all accesses.
Loop Collapsed(const Loop& loop);

}  // namespace asyra::cuda
