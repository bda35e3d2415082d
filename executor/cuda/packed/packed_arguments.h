// The arguments of the kernels of packed rows, for the host.
#pragma once

#include "executor/cuda/hopper/tensor_map.h"

namespace asyra::cuda {

#include "executor/cuda/packed/packed_params.cuh"

}  // namespace asyra::cuda
