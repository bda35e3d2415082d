// What a computation takes alone: matmuls by tiles and waves, everything else
// by its flops and bytes. Equations: simulator/README.md.
#pragma once

#include "ir/op_def.h"
#include "simulator/machine.h"

namespace asyra {

struct ComputeEstimate {
  double math_us = 0;
  double memory_us = 0;
  // Blocks of a matmul over the SMs of the device: 1.5 take as long as 2.
  // 0 for what is not quantised.
  double waves = 0;
};

// `work` of local types and the element type it is done in. `result` is the
// local type of result 0, whose leading dimensions are the rows of matmuls
// that do not say.
ComputeEstimate EstimateCompute(const Gpu& gpu, const Work& work, DType dtype,
                                const Type& result);

// The matmuls of `work`: batch results of rows x cols, and their depth.
struct MatmulShape {
  double batch = 1, rows = 0, cols = 0, k = 0;
};
MatmulShape MatmulOf(const Work& work, const Type& result);

}  // namespace asyra
