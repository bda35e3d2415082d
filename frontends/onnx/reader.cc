#include "frontends/onnx/reader.h"

#include <google/protobuf/io/coded_stream.h>

#include <limits>

#include "ir/support/mapped_file.h"
#include "ir/support/status.h"
#include "onnx/onnx.pb.h"

namespace asyra::onnx_import {
namespace {

bool LooksLikeText(std::string_view bytes) {
  bytes = bytes.substr(0, 64);
  return std::all_of(bytes.begin(), bytes.end(), [](unsigned char c) {
    return (c >= 0x20 && c < 0x7f) || c == '\n' || c == '\r' || c == '\t';
  });
}

// Parses a whole file as `Message`; `what` names the expected content in
// errors.
template <typename Message>
absl::StatusOr<std::shared_ptr<const Message>> ParseFile(
    const std::string& path, std::string_view what) {
  ASYRA_ASSIGN_OR_RETURN(std::shared_ptr<const MappedFile> file,
                         MappedFile::Open(path));
  std::string_view bytes = file->bytes();
  if (bytes.empty())
    return Invalid("{}: not {}: the file is empty", path, what);
  if (bytes.size() > std::numeric_limits<int>::max()) {
    return Invalid(
        "{}: not {}: {} bytes, but protobuf ends at {}; larger models keep "
        "their weights in external data",
        path, what, bytes.size(), std::numeric_limits<int>::max());
  }
  if (LooksLikeText(bytes)) {
    return Invalid("{}: not {}: it is a text file", path, what);
  }
  auto message = std::make_shared<Message>();
  google::protobuf::io::CodedInputStream stream(
      reinterpret_cast<const uint8_t*>(bytes.data()),
      static_cast<int>(bytes.size()));
  if (!message->MergePartialFromCodedStream(&stream) ||
      !stream.ConsumedEntireMessage()) {
    return Invalid("{}: not {}: not a protobuf message, or cut short", path,
                   what);
  }
  return std::shared_ptr<const Message>(std::move(message));
}

}  // namespace

absl::StatusOr<OnnxFile> ReadOnnxFile(const std::string& path) {
  ASYRA_ASSIGN_OR_RETURN(std::shared_ptr<const onnx::ModelProto> model,
                         ParseFile<onnx::ModelProto>(path, "an ONNX model"));
  if (!model->has_graph()) {
    return Invalid("{}: not an ONNX model: it has no graph", path);
  }
  if (model->opset_import_size() == 0) {
    return Invalid("{}: not an ONNX model: it imports no opset", path);
  }
  return OnnxFile{path, std::move(model)};
}

absl::StatusOr<std::shared_ptr<const onnx::TensorProto>> ReadTensorFile(
    const std::string& path) {
  return ParseFile<onnx::TensorProto>(path, "an ONNX tensor");
}

}  // namespace asyra::onnx_import
