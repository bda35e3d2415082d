// Gather and scatter of elements and slices (ir/ops/{gather,gather_nd,
// scatter}.cc) on the GPU.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "executor/cuda/device/element.h"

namespace asyra::cuda {

inline constexpr int kMostIndexDims = 8;

// Positions of slices of a value that this rank holds a part of: slice i, of
// `count`, begins at the sum of
// - i as an index of `shape`, by `strides`;
// - each of the `depth` integers of group i % groups, by its dimension's
//   stride, counted from the end when negative.
// It is elsewhere when one of these dimensions has it on another rank.
struct SliceIndexing {
  struct Dim {
    int64_t size, total;  // here, on all ranks
    int64_t start;        // the first one here
    int64_t stride;
  };
  Element index = Element::kI64;
  int64_t count = 0, groups = 1;
  int64_t slice = 1;  // contiguous elements; strides are multiples
  int dims = 0, depth = 1;
  int64_t shape[kMostIndexDims] = {}, strides[kMostIndexDims] = {};
  Dim indexed[kMostIndexDims] = {};
};

// Slices one after the other: zeros for those elsewhere, ones in all bits for
// an index out of range.
cudaError_t GatherSlices(const SliceIndexing& indexing, const void* indices,
                         int64_t element_bytes, const void* from, void* to,
                         cudaStream_t stream);

// Operation that combines an update with the old value; in the order of
// ops::Reduction.
enum class ScatterReduction : int32_t { kReplace, kAdd, kMul, kMax, kMin };

// Bytes of an element while updates are accumulated: f16 and bf16 are wider.
int64_t ScatterBytes(Element element);

// `to` becomes `x`, zeros where that is null, of `elements`, into which the
// slices of `updates` are scattered one after the other; indices out of range
// are skipped. `wide` has ScatterBytes for each element, and may be `to` where
// that is no more than it has.
cudaError_t ScatterSlices(const SliceIndexing& indexing,
                          ScatterReduction reduction, Element element,
                          int64_t elements, const void* x, const void* indices,
                          const void* updates, void* wide, void* to,
                          cudaStream_t stream);

}  // namespace asyra::cuda
