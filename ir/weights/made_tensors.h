// Tensors made of others when they are read, in no memory of their own:
// ReadShard and ReadWhole (ir/weights/shard_reader.h) read the parts that they
// need.
#pragma once

#include "absl/types/span.h"
#include "ir/tensor.h"

namespace asyra {

// Tensors of one type and shape, of which there is at least one, behind a new
// first dimension.
Tensor StackedTensor(absl::Span<const Tensor> parts);

// The elements rounded to another float type; the tensor itself if that is its
// own.
Tensor RoundedTensor(const Tensor& tensor, DType dtype);

}  // namespace asyra
