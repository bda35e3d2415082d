#include <filesystem>

#include "frontends/onnx/body_importer.h"
#include "frontends/onnx/import.h"
#include "frontends/onnx/reader.h"
#include "frontends/onnx/tensor_proto.h"
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
    if (!std::filesystem::exists(path)) return tensors;
    ASYRA_ASSIGN_OR_RETURN(auto tensor, ReadTensorProto(path.string()));
    auto& [name, data] = tensor;
    tensors.emplace_back(onnx_import::IrName(name), std::move(data));
  }
}

}  // namespace

absl::StatusOr<std::pair<std::string, Tensor>> ReadTensorProto(
    const std::string& path) {
  ASYRA_ASSIGN_OR_RETURN(auto proto, onnx_import::ReadTensorFile(path));
  absl::StatusOr<Tensor> tensor =
      onnx_import::TensorFromProto(*proto, proto, nullptr);
  if (!tensor.ok()) return Annotate(tensor.status(), path);
  return std::make_pair(proto->name(), *std::move(tensor));
}

absl::StatusOr<TestData> ReadTestData(const std::string& folder) {
  TestData data;
  ASYRA_ASSIGN_OR_RETURN(data.inputs, ReadNumbered(folder, "input"));
  ASYRA_ASSIGN_OR_RETURN(data.outputs, ReadNumbered(folder, "output"));
  if (data.outputs.empty()) {
    return NotFound("{}: there is no output_0.pb", folder);
  }
  return data;
}

}  // namespace asyra
