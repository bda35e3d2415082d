#include "frontends/onnx/export.h"

#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "frontends/onnx/reader.h"
#include "frontends/onnx/tensor_proto.h"
#include "ir/support/file.h"
#include "ir/support/status.h"
#include "ir/weights/shard_reader.h"
#include "onnx/onnx.pb.h"

namespace asyra {
namespace onnx_import {
namespace {

using Visit =
    std::function<absl::Status(const std::string&, onnx::TensorProto*)>;

// Each tensor that the graph stores, with its name; those of its subgraphs and
// of Constant nodes too.
absl::Status VisitTensors(onnx::GraphProto* graph, const Visit& visit) {
  for (onnx::TensorProto& tensor : *graph->mutable_initializer()) {
    ASYRA_RETURN_IF_ERROR(visit(tensor.name(), &tensor));
  }
  for (onnx::NodeProto& node : *graph->mutable_node()) {
    for (onnx::AttributeProto& attr : *node.mutable_attribute()) {
      bool constant = node.op_type() == "Constant" && attr.has_t() &&
                      node.output_size() == 1;
      if (constant) {
        ASYRA_RETURN_IF_ERROR(visit(node.output(0), attr.mutable_t()));
      }
      if (attr.has_g()) {
        ASYRA_RETURN_IF_ERROR(VisitTensors(attr.mutable_g(), visit));
      }
      for (onnx::GraphProto& inner : *attr.mutable_graphs()) {
        ASYRA_RETURN_IF_ERROR(VisitTensors(&inner, visit));
      }
    }
  }
  return absl::OkStatus();
}

bool IsExternal(const onnx::TensorProto& tensor) {
  return tensor.data_location() == onnx::TensorProto::EXTERNAL;
}

class Exporter {
 public:
  Exporter(const OnnxFile& file, const WeightStore& tensors, std::string path)
      : tensors_(tensors),
        path_(std::move(path)),
        model_(*file.model),
        external_(file.path) {}

  absl::Status Run() {
    ASYRA_RETURN_IF_ERROR(
        VisitTensors(model_.mutable_graph(),
                     [&](const std::string& name, onnx::TensorProto* tensor) {
                       return Replace(name, tensor);
                     }));
    for (const auto& [name, tensor] : tensors_) {
      if (!replaced_.contains(name)) {
        return Invalid("the model stores no tensor '{}'", name);
      }
    }
    std::string bytes;
    if (!model_.SerializePartialToString(&bytes)) {
      return Invalid("the model with its weights is too large for protobuf");
    }
    if (!data_.empty()) {
      ASYRA_RETURN_IF_ERROR(WriteFileAtomically(DataPath(), data_));
    }
    return WriteFileAtomically(path_, {bytes});
  }

 private:
  std::string DataPath() const { return path_ + "_data"; }

  absl::Status Replace(const std::string& name, onnx::TensorProto* tensor) {
    const Tensor* value = tensors_.Find(name);
    // One in a subgraph may hide another of its name, of another shape.
    if (value != nullptr) replaced_.insert(name);
    if (value == nullptr) {
      return IsExternal(*tensor) ? CopyExternal(tensor) : absl::OkStatus();
    }
    Shape shape(tensor->dims().begin(), tensor->dims().end());
    if (value->shape() != shape) {
      return Invalid("tensor '{}' is {}, in the model it is {}", name,
                     ShapeToString(value->shape()), ShapeToString(shape));
    }
    ASYRA_ASSIGN_OR_RETURN(DType dtype, DTypeFromOnnx(tensor->data_type()));
    ASYRA_ASSIGN_OR_RETURN(Tensor rounded,
                           ReadShard(*value, Type(dtype, shape), Mesh(), 0));
    if (IsExternal(*tensor)) {
      alive_.push_back(rounded);
      return Place(tensor, {reinterpret_cast<const char*>(rounded.data()),
                            static_cast<size_t>(rounded.bytes())});
    }
    tensor->clear_float_data();
    tensor->clear_double_data();
    tensor->clear_int32_data();
    tensor->set_raw_data(rounded.data(), rounded.bytes());
    return absl::OkStatus();
  }

  absl::Status CopyExternal(onnx::TensorProto* tensor) {
    absl::StatusOr<ExternalBytes> bytes =
        ReadExternal(*tensor, std::nullopt, &external_);
    if (!bytes.ok()) {
      return Annotate(bytes.status(),
                      fmt::format("tensor '{}'", tensor->name()));
    }
    files_.push_back(bytes->file);
    return Place(tensor, bytes->view);
  }

  // Puts the bytes behind the others in the new file of external data.
  absl::Status Place(onnx::TensorProto* tensor, std::string_view bytes) {
    static constexpr char kZeros[64] = {};
    int64_t gap = (64 - offset_ % 64) % 64;
    if (gap > 0) data_.emplace_back(kZeros, static_cast<size_t>(gap));
    offset_ += gap;
    tensor->clear_external_data();
    auto set = [&](const char* key, const std::string& value) {
      auto* entry = tensor->add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    };
    set("location", std::filesystem::path(DataPath()).filename().string());
    set("offset", std::to_string(offset_));
    set("length", std::to_string(bytes.size()));
    data_.push_back(bytes);
    offset_ += static_cast<int64_t>(bytes.size());
    return absl::OkStatus();
  }

  const WeightStore& tensors_;
  const std::string path_;
  onnx::ModelProto model_;
  ExternalFiles external_;
  std::set<std::string> replaced_;
  // External data as it will be written, and what it is in.
  std::vector<std::string_view> data_;
  std::vector<Tensor> alive_;
  std::vector<std::shared_ptr<const MappedFile>> files_;
  int64_t offset_ = 0;
};

}  // namespace
}  // namespace onnx_import

absl::Status ExportOnnx(const std::string& model, const WeightStore& tensors,
                        const std::string& path) {
  ASYRA_ASSIGN_OR_RETURN(onnx_import::OnnxFile file,
                         onnx_import::ReadOnnxFile(model));
  return Annotate(onnx_import::Exporter(file, tensors, path).Run(), model);
}

}  // namespace asyra
