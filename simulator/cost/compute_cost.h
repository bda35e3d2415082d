// Time of a computation alone: matmuls by tiles and waves, everything else by
// flops and bytes. Equations: simulator/README.md.
#pragma once

#include "ir/op_def.h"
#include "simulator/machine/machine.h"

namespace asyra {

struct ComputeEstimate {
  double math_us = 0;
  double memory_us = 0;
  // Tiles of a matmul over the SMs of the device: 1.5 waves take as long as 2.
  // 0 for ops that are not quantised.
  double waves = 0;
};

// `work` of local types and the element type it is done in. `result` is the
// local type of result 0, whose leading dimensions are the rows of matmuls
// whose work does not state them.
ComputeEstimate EstimateCompute(const Gpu& gpu, const Work& work, DType dtype,
                                const Type& result);

// The matmuls of `work`: batch results of rows x cols, and their depth.
struct MatmulShape {
  double batch = 1, rows = 0, cols = 0, k = 0;
};
MatmulShape MatmulOf(const Work& work, const Type& result);

}  // namespace asyra
