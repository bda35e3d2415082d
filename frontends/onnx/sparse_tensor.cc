#include "frontends/onnx/sparse_tensor.h"

#include "frontends/onnx/tensor_proto.h"
#include "ir/support/status.h"
#include "onnx/onnx.pb.h"

namespace asyra::onnx_import {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 28;

// Positions in the dense tensor, from indices [N] of elements or [N, rank] of
// coordinates.
absl::StatusOr<Ints> Positions(const Tensor& indices, const Shape& shape,
                               int64_t count) {
  auto rank = static_cast<int64_t>(shape.size());
  bool linear = indices.rank() == 1;
  Shape expected = linear ? Shape{count} : Shape{count, rank};
  if (indices.dtype() != DType::kI64 || indices.shape() != expected) {
    return Invalid("the indices are {}{}, they should be i64{}",
                   ToString(indices.dtype()), ShapeToString(indices.shape()),
                   ShapeToString(expected));
  }
  Ints positions;
  for (int64_t i = 0; i < count; ++i) {
    int64_t at = linear ? indices.GetInt(i) : 0;
    for (int64_t d = 0; !linear && d < rank; ++d) {
      int64_t index = indices.GetInt(i * rank + d);
      if (index < 0 || index >= shape[d]) {
        return Invalid("index {} of dim {} of size {}", index, d, shape[d]);
      }
      at = at * shape[d] + index;
    }
    int64_t last = positions.empty() ? -1 : positions.back();
    if (at <= last || at >= NumElements(shape)) {
      return Invalid("element {} of shape {} follows element {}", at,
                     ShapeToString(shape), last);
    }
    positions.push_back(at);
  }
  return positions;
}

absl::StatusOr<Tensor> Read(const onnx::SparseTensorProto& proto,
                            const Node::ReadTensor& read_tensor) {
  Shape shape(proto.dims().begin(), proto.dims().end());
  ASYRA_RETURN_IF_ERROR(CheckShape(shape));
  if (NumElements(shape) > kMostElements) {
    return Unimplemented("shape {} has more than 2^28 elements",
                         ShapeToString(shape));
  }
  ASYRA_ASSIGN_OR_RETURN(Tensor values, read_tensor(proto.values()));
  ASYRA_ASSIGN_OR_RETURN(Tensor indices, read_tensor(proto.indices()));
  if (values.rank() != 1) {
    return Invalid("the values have rank {}, it should be 1", values.rank());
  }
  ASYRA_ASSIGN_OR_RETURN(Ints positions,
                         Positions(indices, shape, values.size(0)));
  Tensor dense(values.dtype(), shape);
  for (size_t i = 0; i < positions.size(); ++i) {
    auto from = static_cast<int64_t>(i);
    if (IsFloat(values.dtype())) {
      dense.Set(positions[i], values.Get(from));
    } else {
      dense.SetInt(positions[i], values.GetInt(from));
    }
  }
  return dense;
}

}  // namespace

absl::StatusOr<Tensor> TensorFromSparse(const onnx::SparseTensorProto& proto,
                                        const Node::ReadTensor& read_tensor) {
  absl::StatusOr<Tensor> tensor = Read(proto, read_tensor);
  if (!tensor.ok()) {
    return Annotate(tensor.status(),
                    fmt::format("sparse tensor '{}'", proto.values().name()));
  }
  return tensor;
}

}  // namespace asyra::onnx_import
