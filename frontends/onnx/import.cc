#include "frontends/onnx/import.h"

#include <filesystem>

#include "absl/container/flat_hash_map.h"
#include "frontends/onnx/graph.h"
#include "frontends/onnx/input_dims.h"
#include "frontends/onnx/node_order.h"
#include "frontends/onnx/op_table.h"
#include "frontends/onnx/ops/ops.h"
#include "frontends/onnx/reader.h"
#include "frontends/onnx/tensor_proto.h"
#include "ir/lexer.h"
#include "ir/support/status.h"
#include "onnx/onnx.pb.h"

namespace asyra::onnx_import {
namespace {

constexpr int64_t kOldestOpset = 13;
constexpr int64_t kNewestOpset = 24;

std::string CanonicalDomain(const std::string& domain) {
  return domain == "ai.onnx" ? "" : domain;
}

// An ONNX name as the text form can write it.
std::string IrName(std::string_view name) {
  std::string result(name);
  for (char& c : result) {
    bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                (c >= '0' && c <= '9') || c == '_' || c == '.';
    if (!word) c = '_';
  }
  return result;
}

class Importer {
 public:
  Importer(const OnnxFile& file, const ImportOptions& options)
      : file_(file),
        model_(file.model->graph()),
        options_(options),
        external_(std::filesystem::path(file.path).parent_path().string()) {
    read_tensor_ = [this](const onnx::TensorProto& proto) {
      return TensorFromProto(proto, file_.model, &external_);
    };
  }

  absl::StatusOr<Program> Run() {
    ASYRA_RETURN_IF_ERROR(ReadOpsets());
    ASYRA_ASSIGN_OR_RETURN(std::vector<GraphInput> inputs,
                           BindInputs(model_, options_.dims));
    absl::flat_hash_set<std::string> given;
    for (const GraphInput& input : inputs) {
      if (input.name.empty() || !given.insert(input.name).second) {
        return Invalid("two inputs are called '{}'", input.name);
      }
    }
    for (const auto& tensor : model_.initializer()) {
      if (tensor.name().empty() || !given.insert(tensor.name()).second) {
        return Invalid("two initializers are called '{}'", tensor.name());
      }
    }
    if (model_.sparse_initializer_size() > 0) {
      return Unimplemented("sparse initializers are not supported");
    }
    ASYRA_ASSIGN_OR_RETURN(std::vector<int> order, NodeOrder(model_, given));
    ASYRA_RETURN_IF_ERROR(CheckOpsKnown(order));
    AddInputs(inputs);
    ASYRA_RETURN_IF_ERROR(AddInitializers());
    for (int index : order) {
      ASYRA_RETURN_IF_ERROR(ImportNode(model_.node(index)));
    }
    return Finish();
  }

 private:
  absl::Status ReadOpsets() {
    for (const auto& opset : file_.model->opset_import()) {
      opsets_[CanonicalDomain(opset.domain())] =
          static_cast<int>(std::min<int64_t>(opset.version(), INT32_MAX));
      if (!CanonicalDomain(opset.domain()).empty()) continue;
      if (opset.version() < kOldestOpset || opset.version() > kNewestOpset) {
        return Unimplemented("opset {} is not between {} and {}",
                             opset.version(), kOldestOpset, kNewestOpset);
      }
    }
    return absl::OkStatus();
  }

  const OpSpelling* SpellingOf(const onnx::NodeProto& node) const {
    std::string domain = CanonicalDomain(node.domain());
    auto opset = opsets_.find(domain);
    if (opset == opsets_.end()) return nullptr;
    return FindSpelling(domain, node.op_type(), opset->second);
  }

  // All unknown ops at once, so that a user sees how far off a model is.
  absl::Status CheckOpsKnown(const std::vector<int>& order) const {
    std::map<std::string, std::pair<std::string, int>> unknown;
    for (int index : order) {
      const onnx::NodeProto& node = model_.node(index);
      if (SpellingOf(node) != nullptr) continue;
      std::string domain = CanonicalDomain(node.domain());
      auto opset = opsets_.find(domain);
      std::string version = opset == opsets_.end()
                                ? "not imported by the model"
                                : fmt::format("opset {}", opset->second);
      std::string op =
          fmt::format("{}{}{} ({})", domain, domain.empty() ? "" : ":",
                      node.op_type(), version);
      auto& [name, count] = unknown[op];
      if (count++ == 0) name = node.name();
    }
    if (unknown.empty()) return absl::OkStatus();
    std::string list;
    for (const auto& [op, where] : unknown) {
      list += fmt::format("{}{} at node '{}'", list.empty() ? "" : ", ", op,
                          where.first);
      if (where.second > 1)
        list += fmt::format(" and {} more", where.second - 1);
    }
    return Unimplemented("ops that are not supported: {}", list);
  }

  void AddInputs(const std::vector<GraphInput>& inputs) {
    bool has_data =
        std::any_of(inputs.begin(), inputs.end(), [](const GraphInput& input) {
          return input.symbolic || !IsFloat(input.type.dtype);
        });
    for (const GraphInput& input : inputs) {
      bool weight = has_data && !input.symbolic && IsFloat(input.type.dtype) &&
                    input.type.rank() >= 1;
      values_[input.name] =
          graph_.Input(IrName(input.name), input.type,
                       weight ? InputRole::kWeight : InputRole::kData);
    }
  }

  // Integers, masks and single numbers take part in shape arithmetic and are
  // known; the rest are the model's parameters.
  absl::Status AddInitializers() {
    for (const auto& proto : model_.initializer()) {
      ASYRA_ASSIGN_OR_RETURN(Tensor tensor, read_tensor_(proto));
      bool parameter = IsFloat(tensor.dtype()) && tensor.num_elements() > 1;
      std::string name = IrName(proto.name());
      Value value =
          parameter ? graph_.Weight(name, tensor) : Value::Known(tensor);
      value.set_name(name);
      values_[proto.name()] = std::move(value);
    }
    return absl::OkStatus();
  }

  absl::Status ImportNode(const onnx::NodeProto& proto) {
    absl::Status status = TryImportNode(proto);
    if (status.ok()) return status;
    std::string name = proto.name().empty() && proto.output_size() > 0
                           ? proto.output(0)
                           : proto.name();
    return Annotate(status, fmt::format("{} node '{}'", proto.op_type(), name));
  }

  absl::Status TryImportNode(const onnx::NodeProto& proto) {
    const OpSpelling* spelling = SpellingOf(proto);
    std::vector<std::optional<Value>> inputs;
    for (const std::string& name : proto.input()) {
      inputs.emplace_back();
      if (name.empty()) continue;
      auto found = values_.find(name);
      if (found == values_.end()) {
        return Invalid("input '{}' is an output that its op does not give",
                       name);
      }
      if (found->second.is_sequence() && spelling->import != ops::SequenceAt) {
        return Unimplemented("input '{}' is a sequence", name);
      }
      inputs.back() = found->second;
    }
    ASYRA_RETURN_IF_ERROR(CheckInputs(*spelling, inputs));
    if (proto.output_size() > 0) graph_.set_name(IrName(proto.output(0)));
    Node node(proto, opsets_[CanonicalDomain(proto.domain())], spelling->ir_op,
              std::move(inputs), read_tensor_, &graph_);
    ASYRA_RETURN_IF_ERROR(spelling->import(node));
    ASYRA_RETURN_IF_ERROR(node.status());
    for (int i = 0; i < proto.output_size(); ++i) {
      if (proto.output(i).empty() || !node.output(i).has_value()) continue;
      Value value = *node.output(i);
      if (value.name().empty()) value.set_name(IrName(proto.output(i)));
      values_[proto.output(i)] = std::move(value);
    }
    return absl::OkStatus();
  }

  static absl::Status CheckInputs(
      const OpSpelling& spelling,
      const std::vector<std::optional<Value>>& inputs) {
    auto count = static_cast<int>(inputs.size());
    if (count < spelling.min_inputs ||
        (spelling.max_inputs >= 0 && count > spelling.max_inputs)) {
      return Invalid("it has {} inputs, {} takes {} to {}", count,
                     spelling.name, spelling.min_inputs,
                     spelling.max_inputs < 0
                         ? "any number"
                         : std::to_string(spelling.max_inputs));
    }
    for (int i = 0; i < count; ++i) {
      if (!inputs[i].has_value() &&
          (i < spelling.min_inputs || spelling.max_inputs < 0)) {
        return Invalid("input {} is left out", i);
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Program> Finish() {
    std::vector<std::pair<std::string, ValueId>> outputs;
    if (model_.output_size() == 0) return Invalid("the graph has no output");
    for (const auto& output : model_.output()) {
      auto found = values_.find(output.name());
      if (found == values_.end()) {
        return Invalid("output '{}' is one that its op does not give",
                       output.name());
      }
      const Value& value = found->second;
      if (value.is_sequence()) {
        return Unimplemented("output '{}' is a sequence", output.name());
      }
      ASYRA_RETURN_IF_ERROR(CheckOutput(output, options_.dims, value.type()));
      graph_.set_name(IrName(output.name()));
      ASYRA_ASSIGN_OR_RETURN(ValueId id, graph_.Materialize(value));
      outputs.emplace_back(IrName(output.name()), id);
    }
    std::string name = IrName(model_.name());
    if (name.empty()) name = "main";
    if (!IsName(name)) name = "_" + name;  // it begins with a digit
    return std::move(graph_).Finish(name, outputs);
  }

  const OnnxFile& file_;
  const onnx::GraphProto& model_;
  const ImportOptions& options_;
  ExternalFiles external_;
  Node::ReadTensor read_tensor_;
  absl::flat_hash_map<std::string, int> opsets_;
  absl::flat_hash_map<std::string, Value> values_;
  Graph graph_;
};

}  // namespace
}  // namespace asyra::onnx_import

namespace asyra {

absl::StatusOr<Program> ImportOnnx(const std::string& path,
                                   const ImportOptions& options) {
  ASYRA_ASSIGN_OR_RETURN(onnx_import::OnnxFile file,
                         onnx_import::ReadOnnxFile(path));
  absl::StatusOr<Program> program = onnx_import::Importer(file, options).Run();
  if (!program.ok()) return Annotate(program.status(), path);
  return program;
}

}  // namespace asyra
