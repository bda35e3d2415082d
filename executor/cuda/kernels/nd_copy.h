// N-dimensional copies of elements from one strided layout to another, each by
// the fastest method for its shape.
#pragma once

#include <optional>
#include <variant>

#include "executor/cuda/codegen/generated_kernel.h"
#include "executor/cuda/kernels/strided_copy.h"
#include "executor/cuda/kernels/transpose.h"

namespace asyra::cuda {

class NdCopy {
 public:
  // Copies so many elements in each dimension, of the same type on both sides.
  // Uses the current GPU where a kernel has to be compiled.
  static absl::StatusOr<NdCopy> Create(const Shape& sizes, const Access& from,
                                       const Access& to, DType dtype);
  absl::Status Enqueue(const void* from, void* to, cudaStream_t stream) const;

  enum class Kind : uint8_t {
    kNothing,
    kPlain,
    kStrided,
    kTranspose,
    kGenerated
  };
  // Returns how such a copy is done.
  static Kind KindOf(const Shape& sizes, const Access& from, const Access& to);
  Kind kind() const { return kind_; }

 private:
  Kind kind_ = Kind::kNothing;
  int64_t element_bytes_ = 0;
  int64_t from_bytes_ = 0, to_bytes_ = 0;  // to the first element
  StridedCopy strided_;
  Transpose transpose_;
  GeneratedKernel generated_;
};

}  // namespace asyra::cuda
