// The contiguous runs of a part of a dense value.
#pragma once

#include <cstdint>

#include "ir/type.h"

namespace asyra {

// The contiguous runs of a part along dimension `dim`: one for each place in
// the dimensions before it.
inline int64_t ContiguousRuns(const Type& value, int dim) {
  int64_t runs = 1;
  for (int d = 0; d < dim; ++d) runs *= value.size(d);
  return runs;
}

}  // namespace asyra
