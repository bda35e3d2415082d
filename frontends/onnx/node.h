// One ONNX node while it is being imported, as its op function sees it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/onnx/graph.h"
#include "frontends/onnx/scope.h"
#include "ir/support/status.h"

namespace onnx {
class GraphProto;
class TensorProto;
}  // namespace onnx

namespace asyra::onnx_import {

class Node {
 public:
  using ReadTensor =
      std::function<absl::StatusOr<Tensor>(const onnx::TensorProto&)>;

  // Imports a subgraph with these inputs and gives its outputs. `label`
  // tells the names of its ops from those of another run.
  using RunSubgraph = std::function<absl::StatusOr<std::vector<Value>>(
      const onnx::GraphProto&, std::vector<Value> inputs,
      std::string_view label)>;
  // The importer's state that a node uses; it outlives the node.
  struct Importer {
    const ReadTensor& read_tensor;
    const RunSubgraph& run_subgraph;
    Graph& graph;
    const absl::flat_hash_set<std::string_view>& reads;  // names
  };

  // `inputs` has one entry per input of the node, empty where it is left out.
  // `proto` outlives the node.
  Node(const onnx::NodeProto& proto, int opset, std::string_view ir_op,
       std::vector<std::optional<Value>> inputs, Attributes attributes,
       const Importer& importer);

  Graph& graph() { return importer_.graph; }
  // Version of the node's opset that the model imports.
  int opset() const { return opset_; }
  // The IR op that the op table names for this spelling, or "".
  std::string_view ir_op() const { return ir_op_; }

  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  bool Has(int input) const;
  // Error: one of these inputs is left out.
  absl::Status Require(std::initializer_list<int> inputs) const;
  // The input, which must not be left out: as the op table requires, or Has
  // says.
  const Value& In(int input) const { return *inputs_[input]; }
  // Makes a stored scalar known that has become a weight, as a parameter's name
  // does: for ops that need its value here.
  void TakeNumber(int input);
  DType dtype(int input = 0) const { return In(input).dtype(); }
  const Type& type(int input = 0) const { return In(input).type(); }
  int rank(int input = 0) const { return In(input).rank(); }
  // The name that the model has for it.
  const std::string& InputName(int input) const;
  // All inputs that are not left out.
  std::vector<Value> Inputs() const;
  // Elements of an input of integers that must be known now, as shapes and
  // axes must; `what` names it in the error.
  absl::StatusOr<Ints> KnownInts(int input, std::string_view what) const;

  // Attributes, with the default where they are left out. An attribute of
  // another type is an error, which `status` reports after the op function.
  bool HasAttr(std::string_view name);
  int64_t Int(std::string_view name, int64_t otherwise);
  double Float(std::string_view name, double otherwise);
  std::string String(std::string_view name, std::string_view otherwise);
  Ints IntList(std::string_view name);
  std::vector<double> FloatList(std::string_view name);
  // A dense or a sparse tensor.
  absl::StatusOr<Value> TensorAttr(std::string_view name);
  // Runs a subgraph attribute. Error: the subgraph does not take so many
  // inputs or gives less than `num_outputs`.
  absl::StatusOr<std::vector<Value>> Run(std::string_view attr,
                                         std::vector<Value> inputs,
                                         size_t num_outputs,
                                         std::string_view label = "");

  int num_outputs() const { return static_cast<int>(outputs_.size()); }
  // Returns whether a node or the list of outputs reads it.
  bool WantsOutput(int output) const;
  absl::Status SetOutput(int output, absl::StatusOr<Value> value);
  // For ops of one output.
  absl::Status Return(absl::StatusOr<Value> value) {
    return SetOutput(0, std::move(value));
  }
  const std::optional<Value>& output(int output) const {
    return outputs_[output];
  }

  // For an attribute that does not matter here.
  void Ignore(std::string_view name) { read_.insert(std::string(name)); }
  // After the op function: the first attribute of a wrong type, or one that
  // was not looked at and so may mean something this importer does not know.
  absl::Status status() const;

 private:
  const onnx::AttributeProto* Find(std::string_view name, int type);

  const onnx::NodeProto& proto_;
  int opset_;
  std::string_view ir_op_;
  std::vector<std::optional<Value>> inputs_;
  std::vector<std::optional<Value>> outputs_;
  Attributes attributes_;
  Importer importer_;
  absl::Status status_;
  std::set<std::string, std::less<>> read_;
};

// "dim 4 of a value of rank 3", or the dimension counted from the front.
absl::StatusOr<int> DimOf(int64_t axis, int rank);

}  // namespace asyra::onnx_import
