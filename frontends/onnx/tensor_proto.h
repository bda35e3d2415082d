// ONNX tensors as host tensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "ir/support/mapped_file.h"
#include "ir/tensor.h"

namespace onnx {
class TensorProto;
}

namespace asyra::onnx_import {

// Element type of an onnx::TensorProto::DataType. Error: one that the IR does
// not have, by name.
absl::StatusOr<DType> DTypeFromOnnx(int64_t data_type);

// Returns the inverse of DTypeFromOnnx.
int32_t OnnxFromDType(DType dtype);

// Refuses negative sizes and more than 2^48 elements, so that no product of
// sizes overflows.
absl::Status CheckShape(absl::Span<const int64_t> shape);

// The files beside a model that hold its large tensors, each mapped once.
class ExternalFiles {
 public:
  explicit ExternalFiles(std::filesystem::path model)
      : model_(std::move(model)) {}
  // `location` must stay inside the model's folder: no absolute path, no "..",
  // no link to somewhere else. Where the model itself is a link, one to a file
  // beside the model's is as good: caches of downloads keep both so.
  absl::StatusOr<std::shared_ptr<const MappedFile>> Open(
      const std::string& location);

 private:
  absl::Status CheckLinks(const std::filesystem::path& path) const;

  std::filesystem::path model_;
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;
};

// Bytes in a file that is mapped while `file` lives.
struct ExternalBytes {
  std::string_view view;
  std::shared_ptr<const MappedFile> file;
};

// The bytes that a message keeps in a file beside the model. Without `need`, as
// many as the message says, or all behind its offset. Errors: another length
// than `need`, a location outside the folder, bytes behind the file's end.
absl::StatusOr<ExternalBytes> ReadExternal(const onnx::TensorProto& proto,
                                           std::optional<int64_t> need,
                                           ExternalFiles* files);

// The tensor of a message; one of a narrow type (narrow_type.h) is widened to
// its carrier. Raw bytes, in the message or in an external file,
// are viewed and not copied; `owner` keeps the message alive. Errors name the
// tensor: an unknown element type, too few or too many bytes or values, a
// location outside the folder.
absl::StatusOr<Tensor> TensorFromProto(const onnx::TensorProto& proto,
                                       std::shared_ptr<const void> owner,
                                       ExternalFiles* files);

}  // namespace asyra::onnx_import
