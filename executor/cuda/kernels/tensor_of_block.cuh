// One launch for several tensors: a block has a piece of one of them.
#pragma once

namespace asyra::cuda {

// The tensor of a block of `tensors`, which has `count` of them and, in
// first_block, the number of the first block of each and of all.
template <typename Tensors>
__device__ int TensorOfBlock(const Tensors& tensors, int block) {
  int low = 0, high = tensors.count;
  while (high - low > 1) {
    int middle = (low + high) / 2;
    (tensors.first_block[middle] <= block ? low : high) = middle;
  }
  return low;
}

}  // namespace asyra::cuda
