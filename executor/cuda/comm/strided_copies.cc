#include "executor/cuda/comm/strided_copies.h"

namespace asyra::cuda {
namespace {

// Row-major strides of a tensor that holds `box`, in bytes.
Shape StridesOf(const Box& box, int64_t element_bytes) {
  Shape strides(box.size.size(), element_bytes);
  for (int d = box.rank() - 2; d >= 0; --d) {
    strides[d] = strides[d + 1] * box.size[d + 1];
  }
  return strides;
}

}  // namespace

std::vector<StridedCopyAt> StridedCopiesOf(const BoxCopy& box) {
  Shape from = StridesOf(box.from_box, box.element_bytes);
  Shape to = StridesOf(box.to_box, box.element_bytes);
  const Shape& size = box.what.size;
  StridedCopyAt part{
      {},
      static_cast<const std::byte*>(box.from) +
          FirstElement(box.what, box.from_box) * box.element_bytes,
      static_cast<std::byte*>(box.to) +
          FirstElement(box.what, box.to_box) * box.element_bytes};
  int outer = box.what.rank();
  part.copy.run_bytes = box.element_bytes;
  while (outer > 0) {
    --outer;
    part.copy.run_bytes *= size[outer];
    if (size[outer] != box.from_box.size[outer] ||
        size[outer] != box.to_box.size[outer]) {
      break;
    }
  }
  StridedCopy& copy = part.copy;
  copy.from_middle = copy.to_middle = copy.run_bytes;
  auto take = [&](int64_t* count, int64_t* from_stride, int64_t* to_stride) {
    if (outer == 0) return;
    --outer;
    *count = size[outer];
    *from_stride = from[outer];
    *to_stride = to[outer];
  };
  take(&copy.middle, &copy.from_middle, &copy.to_middle);
  copy.from_outer = copy.middle * copy.from_middle;
  copy.to_outer = copy.middle * copy.to_middle;
  take(&copy.outer, &copy.from_outer, &copy.to_outer);
  take(&copy.blocks, &copy.from_block, &copy.to_block);
  std::vector<StridedCopyAt> parts = {part};
  for (int d = outer - 1; d >= 0; --d) {
    std::vector<StridedCopyAt> repeated;
    for (int64_t i = 0; i < size[d]; ++i) {
      for (StridedCopyAt one : parts) {
        one.from += i * from[d];
        one.to += i * to[d];
        repeated.push_back(one);
      }
    }
    parts = std::move(repeated);
  }
  return parts;
}

}  // namespace asyra::cuda
