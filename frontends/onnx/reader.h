// ONNX files into protobuf messages.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace onnx {
class ModelProto;
class TensorProto;
}  // namespace onnx

namespace asyra::onnx_import {

// A parsed model and its folder, to which the paths of external data are
// relative.
struct OnnxFile {
  std::string path;
  std::shared_ptr<const onnx::ModelProto> model;
};

// Errors: "FILE: not an ONNX model: ..." with the reason, for a file that is
// missing, empty, text, truncated or otherwise invalid. A model has a graph and
// at least one opset import.
absl::StatusOr<OnnxFile> ReadOnnxFile(const std::string& path);

// One tensor by itself, as in test_data_set_0/input_0.pb.
absl::StatusOr<std::shared_ptr<const onnx::TensorProto>> ReadTensorFile(
    const std::string& path);

}  // namespace asyra::onnx_import
