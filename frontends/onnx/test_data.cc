#include <algorithm>
#include <filesystem>
#include <vector>

#include "frontends/onnx/body_importer.h"
#include "frontends/onnx/import.h"
#include "frontends/onnx/reader.h"
#include "frontends/onnx/tensor_proto.h"
#include "ir/support/path.h"
#include "ir/support/status.h"
#include "onnx/onnx.pb.h"

namespace asyra {
namespace {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

absl::StatusOr<NamedTensors> ReadNumbered(const std::filesystem::path& folder,
                                          std::string_view stem) {
  NamedTensors tensors;
  for (;;) {
    auto path = folder / fmt::format("{}_{}.pb", stem, tensors.size());
    if (!IsThere(path)) return tensors;
    ASYRA_ASSIGN_OR_RETURN(auto tensor, ReadTensorProto(path.string()));
    auto& [name, data] = tensor;
    tensors.emplace_back(onnx_import::IrName(name), std::move(data));
  }
}

bool Has(const std::filesystem::path& folder, std::string_view stem) {
  return IsThere(folder / fmt::format("{}_0.pb", stem));
}

// The first of the folders in `folder` that has recorded tensors, or "".
std::string FolderWithData(const std::filesystem::path& folder) {
  std::vector<std::string> found;
  std::error_code ignored;
  for (const auto& entry :
       std::filesystem::directory_iterator(folder, ignored)) {
    if (Has(entry.path(), "input") || Has(entry.path(), "output")) {
      found.push_back(entry.path().string());
    }
  }
  return found.empty() ? "" : *std::min_element(found.begin(), found.end());
}

// Why there is nothing to read in `folder`; `outputs`: outputs are needed.
absl::Status CheckFolder(const std::string& folder, bool outputs) {
  if (!IsThere(folder)) {
    return NotFound("{}: there is no such folder", folder);
  }
  if (!IsFolder(folder)) {
    return Invalid("{}: it is a file, it should be a folder of input_0.pb, ...",
                   folder);
  }
  if (Has(folder, outputs ? "output" : "input")) return absl::OkStatus();
  if (outputs && Has(folder, "input")) {
    return NotFound(
        "{}: there is input_0.pb, but no output_0.pb to compare with", folder);
  }
  std::string what = outputs ? "input_0.pb and no output_0.pb" : "input_0.pb";
  std::string inside = FolderWithData(folder);
  if (inside.empty()) return NotFound("{}: there is no {}", folder, what);
  return NotFound("{}: there is no {} in it itself, but in {}", folder, what,
                  inside);
}

}  // namespace

std::string ProgramName(std::string_view name) {
  return onnx_import::IrName(name);
}

absl::StatusOr<std::string> TensorProtoBytes(std::string_view name,
                                             const Tensor& tensor) {
  constexpr int64_t kMostBytes = int64_t{1} << 31;
  onnx::TensorProto proto;
  proto.set_name(std::string(name));
  proto.set_data_type(onnx_import::OnnxFromDType(tensor.dtype()));
  for (int64_t size : tensor.shape()) proto.add_dims(size);
  // The name and sizes take less than the rest of the limit.
  if (tensor.bytes() >= kMostBytes - (1 << 20)) {
    return Invalid("{} bytes are too many for a TensorProto, which takes {}",
                   tensor.bytes(), kMostBytes - 1);
  }
  proto.set_raw_data(tensor.data(), tensor.bytes());
  return proto.SerializeAsString();
}

absl::StatusOr<std::pair<std::string, Tensor>> ReadTensorProto(
    const std::string& path) {
  ASYRA_ASSIGN_OR_RETURN(auto proto, onnx_import::ReadTensorFile(path));
  absl::StatusOr<Tensor> tensor =
      onnx_import::TensorFromProto(*proto, proto, nullptr);
  if (!tensor.ok()) return Annotate(tensor.status(), path);
  return std::make_pair(proto->name(), *std::move(tensor));
}

absl::StatusOr<TestData> ReadTestData(const std::string& folder) {
  ASYRA_RETURN_IF_ERROR(CheckFolder(folder, /*outputs=*/true));
  TestData data;
  ASYRA_ASSIGN_OR_RETURN(data.inputs, ReadNumbered(folder, "input"));
  ASYRA_ASSIGN_OR_RETURN(data.outputs, ReadNumbered(folder, "output"));
  return data;
}

absl::StatusOr<std::vector<std::pair<std::string, Tensor>>> ReadTestInputs(
    const std::string& folder) {
  ASYRA_RETURN_IF_ERROR(CheckFolder(folder, /*outputs=*/false));
  return ReadNumbered(folder, "input");
}

}  // namespace asyra
