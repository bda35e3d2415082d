// Names that exporters take from parameters and that a file still tells.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "ir/tensor.h"

namespace onnx {
class GraphProto;
}  // namespace onnx

namespace asyra::onnx_import {

// The model's name of a matrix that the exporter has folded into a constant.
struct ExportedName {
  std::string name;         // "layers.0.q_proj.weight"
  bool transposed = false;  // the file has the model's matrix transposed
};

// By initializer. PyTorch's exporters transpose the weights of linear layers,
// and call the results `val_93` or `onnx::MatMul_353`. The module that such a
// weight belongs to is in the metadata of the matmul that reads it
// (pkg.torch.onnx.name_scopes), or in that node's name
// ("/layers.0/q_proj/MatMul"). Several have one name where modules are shared,
// and then equal data; where their data differs, nothing is known.
std::map<std::string, ExportedName, std::less<>> ExportedNames(
    const onnx::GraphProto& graph);

// Returns whether a stored float of one element may be a parameter, such as the
// scale of logits: its name is not one that exporters and people give constants
// (val_12, c3, half, or eps of a scalar above 0 and up to 0.01), it is no
// number that hides positions, and it is not called a scale beside being a root
// of a size (1/8 for heads of 64).
bool MayBeParameter(std::string_view name, const Tensor& number);

// True for a name that exporters make up for a constant (val_12, c3,
// _Constant_output_0) of that rank, and people do not give.
bool IsMadeUpName(std::string_view name, int rank);

}  // namespace asyra::onnx_import
