// Sparse initializers as dense tensors.
#pragma once

#include "absl/status/statusor.h"
#include "frontends/onnx/node.h"

namespace onnx {
class SparseTensorProto;
}

namespace asyra::onnx_import {

// Zeros but for the values. Errors: indices outside of the shape or not in
// order, numbers that do not fit together, more than 2^28 elements.
absl::StatusOr<Tensor> TensorFromSparse(const onnx::SparseTensorProto& proto,
                                        const Node::ReadTensor& read_tensor);

}  // namespace asyra::onnx_import
