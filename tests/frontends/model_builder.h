// Small ONNX models written in code.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <variant>
#include <vector>

#include "frontends/onnx/import.h"
#include "gtest/gtest.h"
#include "ir/support/status.h"
#include "onnx/onnx.pb.h"

namespace asyra {

inline constexpr int kF32 = onnx::TensorProto::FLOAT;
inline constexpr int kI64 = onnx::TensorProto::INT64;
inline constexpr int kBool = onnx::TensorProto::BOOL;

class ModelBuilder {
 public:
  using Dim = std::variant<int, const char*>;  // a size, or a name
  using Attr = std::variant<int, int64_t, float, const char*,
                            std::vector<int64_t>, onnx::GraphProto>;

  explicit ModelBuilder(int opset = 18) {
    model.set_ir_version(8);
    model.add_opset_import()->set_version(opset);
    graph().set_name("test");
  }

  onnx::GraphProto& graph() { return *model.mutable_graph(); }

  ModelBuilder& Input(const std::string& name, int type,
                      const std::vector<Dim>& dims) {
    Describe(graph().add_input(), name, type, dims);
    return *this;
  }
  // Of a subgraph or a function, which need no types.
  ModelBuilder& Input(const std::string& name) {
    graph().add_input()->set_name(name);
    return *this;
  }
  ModelBuilder& Output(const std::string& name) {
    graph().add_output()->set_name(name);
    return *this;
  }
  ModelBuilder& Output(const std::string& name, int type,
                       const std::vector<Dim>& dims) {
    Describe(graph().add_output(), name, type, dims);
    return *this;
  }
  ModelBuilder& Ints(const std::string& name,
                     const std::vector<int64_t>& values,
                     std::vector<int64_t> dims = {-1}) {
    if (dims == std::vector<int64_t>{-1}) {
      dims = {static_cast<int64_t>(values.size())};
    }
    onnx::TensorProto* tensor = Initializer(name, kI64, dims);
    for (int64_t value : values) tensor->add_int64_data(value);
    return *this;
  }
  ModelBuilder& Floats(const std::string& name, std::vector<float> values,
                       const std::vector<int64_t>& dims) {
    onnx::TensorProto* tensor = Initializer(name, kF32, dims);
    tensor->set_raw_data(values.data(), values.size() * sizeof(float));
    return *this;
  }
  onnx::TensorProto* Initializer(const std::string& name, int type,
                                 const std::vector<int64_t>& dims) {
    onnx::TensorProto* tensor = graph().add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(type);
    for (int64_t dim : dims) tensor->add_dims(dim);
    return tensor;
  }
  ModelBuilder& Node(
      const std::string& op, const std::vector<std::string>& inputs,
      const std::vector<std::string>& outputs,
      const std::vector<std::pair<std::string, Attr>>& attrs = {}) {
    onnx::NodeProto* node = graph().add_node();
    node->set_op_type(op);
    node->set_name("node_" + outputs[0]);
    for (const std::string& input : inputs) node->add_input(input);
    for (const std::string& output : outputs) node->add_output(output);
    for (const auto& [name, value] : attrs) {
      onnx::AttributeProto* attr = node->add_attribute();
      attr->set_name(name);
      SetAttr(attr, value);
    }
    return *this;
  }

  // The node that was added last.
  onnx::NodeProto& last() {
    return *graph().mutable_node(graph().node_size() - 1);
  }
  // Adds a function of domain "f" whose body is that of `body`, of this opset.
  onnx::FunctionProto& Function(const std::string& name, ModelBuilder body,
                                int opset = 18) {
    if (model.functions_size() == 0) {
      onnx::OperatorSetIdProto* import = model.add_opset_import();
      import->set_domain("f");
      import->set_version(1);
    }
    onnx::FunctionProto* function = model.add_functions();
    function->set_domain("f");
    function->set_name(name);
    function->add_opset_import()->set_version(opset);
    for (const auto& input : body.graph().input()) {
      function->add_input(input.name());
    }
    for (const auto& output : body.graph().output()) {
      function->add_output(output.name());
    }
    function->mutable_node()->Swap(body.graph().mutable_node());
    return *function;
  }
  // A node that calls a function of domain "f".
  ModelBuilder& Call(
      const std::string& name, const std::vector<std::string>& inputs,
      const std::vector<std::string>& outputs,
      const std::vector<std::pair<std::string, Attr>>& attrs = {}) {
    Node(name, inputs, outputs, attrs);
    last().set_domain("f");
    return *this;
  }
  // Attribute `name` of the node that was added last is the function's.
  ModelBuilder& Refer(const std::string& name, int type,
                      const std::string& function_attribute) {
    onnx::AttributeProto* attr = last().add_attribute();
    attr->set_name(name);
    attr->set_type(static_cast<onnx::AttributeProto::AttributeType>(type));
    attr->set_ref_attr_name(function_attribute);
    return *this;
  }

  // Writes the model into a folder of the running test and imports it.
  absl::StatusOr<Program> Import(
      std::map<std::string, int64_t> dims = {}) const {
    return Import(ImportOptions{.dims = std::move(dims)});
  }
  absl::StatusOr<Program> Import(const ImportOptions& options,
                                 OpSources* op_sources = nullptr) const {
    std::string path = (TestFolder() / "model.onnx").string();
    std::ofstream(path, std::ios::binary) << model.SerializeAsString();
    return ImportOnnx(path, options, nullptr, op_sources);
  }
  std::string ImportError(std::map<std::string, int64_t> dims = {}) const {
    auto program = Import(std::move(dims));
    return program.ok() ? "" : std::string(MessageOf(program.status()));
  }

  static std::filesystem::path TestFolder() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    std::string name =
        fmt::format("{}_{}", test->test_suite_name(), test->name());
    std::replace(name.begin(), name.end(), '/', '_');
    auto folder = std::filesystem::path(testing::TempDir()) /
                  fmt::format("asyra_{}_{}", ::getpid(), name);
    std::filesystem::create_directories(folder);
    return folder;
  }

  onnx::ModelProto model;

 private:
  static void Describe(onnx::ValueInfoProto* info, const std::string& name,
                       int type, const std::vector<Dim>& dims) {
    info->set_name(name);
    auto* tensor = info->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(type);
    auto* shape = tensor->mutable_shape();
    for (const Dim& dim : dims) {
      if (const int* size = std::get_if<int>(&dim)) {
        shape->add_dim()->set_dim_value(*size);
      } else {
        shape->add_dim()->set_dim_param(std::get<const char*>(dim));
      }
    }
  }

  static void SetAttr(onnx::AttributeProto* attr, const Attr& value) {
    if (const int* i = std::get_if<int>(&value)) {
      attr->set_type(onnx::AttributeProto::INT);
      attr->set_i(*i);
    } else if (const auto* wide = std::get_if<int64_t>(&value)) {
      attr->set_type(onnx::AttributeProto::INT);
      attr->set_i(*wide);
    } else if (const float* f = std::get_if<float>(&value)) {
      attr->set_type(onnx::AttributeProto::FLOAT);
      attr->set_f(*f);
    } else if (const char* const* s = std::get_if<const char*>(&value)) {
      attr->set_type(onnx::AttributeProto::STRING);
      attr->set_s(*s);
    } else if (const auto* graph = std::get_if<onnx::GraphProto>(&value)) {
      attr->set_type(onnx::AttributeProto::GRAPH);
      *attr->mutable_g() = *graph;
    } else {
      attr->set_type(onnx::AttributeProto::INTS);
      for (int64_t i : std::get<std::vector<int64_t>>(value)) attr->add_ints(i);
    }
  }
};

}  // namespace asyra
