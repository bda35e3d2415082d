// The arguments of the kernels of attention, for the host.
#pragma once

#include "executor/cuda/hopper/tensor_map.h"

namespace asyra::cuda {

#include "executor/cuda/flash/flash_params.cuh"

}  // namespace asyra::cuda
