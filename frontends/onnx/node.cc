#include "frontends/onnx/node.h"

#include "frontends/onnx/narrow_type.h"
#include "frontends/onnx/sparse_tensor.h"
#include "onnx/onnx.pb.h"

namespace asyra::onnx_import {

using onnx::AttributeProto;

Node::Node(const onnx::NodeProto& proto, int opset, std::string_view ir_op,
           std::vector<std::optional<Value>> inputs, Attributes attributes,
           const Importer& importer)
    : proto_(proto),
      opset_(opset),
      ir_op_(ir_op),
      inputs_(std::move(inputs)),
      outputs_(proto.output_size()),
      attributes_(std::move(attributes)),
      importer_(importer) {}

bool Node::Has(int input) const {
  return input < num_inputs() && inputs_[input].has_value();
}

absl::Status Node::Require(std::initializer_list<int> inputs) const {
  for (int input : inputs) {
    if (!Has(input)) return Invalid("input {} is left out", input);
  }
  return absl::OkStatus();
}

const std::string& Node::InputName(int input) const {
  return proto_.input(input);
}

std::vector<Value> Node::Inputs() const {
  std::vector<Value> present;
  for (const auto& input : inputs_) {
    if (input.has_value()) present.push_back(*input);
  }
  return present;
}

void Node::TakeNumber(int input) {
  if (!Has(input) || In(input).is_sequence() || In(input).known()) return;
  const Tensor* data = graph().WeightData(In(input));
  if (data != nullptr && data->num_elements() == 1) {
    inputs_[input] = Value::Known(*data);
  }
}

absl::StatusOr<Ints> Node::KnownInts(int input, std::string_view what) const {
  const Value& value = In(input);
  if (!value.known()) {
    return Unimplemented(
        "input {} ({}) depends on the model's data; shapes must follow from "
        "the shapes of the inputs",
        input, what);
  }
  if (!IsInteger(value.dtype())) {
    return Invalid("input {} ({}) is {}, it should be an integer", input, what,
                   ToString(value.dtype()));
  }
  // These lists describe at most some tens of dimensions or parts.
  constexpr int64_t kMost = 4096;
  if (value.type().num_elements() > kMost) {
    return Invalid("input {} ({}) has {} elements", input, what,
                   value.type().num_elements());
  }
  return value.Expanded().ToInts();
}

bool Node::HasAttr(std::string_view name) {
  Ignore(name);
  return std::any_of(attributes_.begin(), attributes_.end(),
                     [&](const auto& attr) { return attr.first == name; });
}

absl::Status Node::status() const {
  if (!status_.ok()) return status_;
  for (const auto& [name, attr] : attributes_) {
    if (read_.count(name) == 0) {
      return Unimplemented("attribute {} is not supported", name);
    }
  }
  return absl::OkStatus();
}

const AttributeProto* Node::Find(std::string_view name, int type) {
  Ignore(name);
  for (const auto& [key, attr] : attributes_) {
    if (key != name) continue;
    if (attr->type() == type) return attr;
    if (status_.ok()) {
      status_ = Invalid("attribute {} has type {}, it should be {}", name,
                        AttributeProto::AttributeType_Name(attr->type()),
                        AttributeProto::AttributeType_Name(
                            static_cast<AttributeProto::AttributeType>(type)));
    }
  }
  return nullptr;
}

int64_t Node::Int(std::string_view name, int64_t otherwise) {
  const AttributeProto* attr = Find(name, AttributeProto::INT);
  return attr == nullptr ? otherwise : attr->i();
}

double Node::Float(std::string_view name, double otherwise) {
  const AttributeProto* attr = Find(name, AttributeProto::FLOAT);
  return attr == nullptr ? otherwise : attr->f();
}

std::string Node::String(std::string_view name, std::string_view otherwise) {
  const AttributeProto* attr = Find(name, AttributeProto::STRING);
  return attr == nullptr ? std::string(otherwise) : attr->s();
}

Ints Node::IntList(std::string_view name) {
  const AttributeProto* attr = Find(name, AttributeProto::INTS);
  return attr == nullptr ? Ints()
                         : Ints(attr->ints().begin(), attr->ints().end());
}

std::vector<double> Node::FloatList(std::string_view name) {
  const AttributeProto* attr = Find(name, AttributeProto::FLOATS);
  return attr == nullptr ? std::vector<double>()
                         : std::vector<double>(attr->floats().begin(),
                                               attr->floats().end());
}

absl::StatusOr<Value> Node::TensorAttr(std::string_view name) {
  Ignore(name);
  for (const auto& [key, attr] : attributes_) {
    if (key != name) continue;
    const auto& proto =
        attr->has_sparse_tensor() ? attr->sparse_tensor().values() : attr->t();
    ASYRA_ASSIGN_OR_RETURN(
        Tensor tensor,
        attr->has_sparse_tensor()
            ? TensorFromSparse(attr->sparse_tensor(), importer_.read_tensor)
            : importer_.read_tensor(proto));
    Value value = Value::Known(tensor);
    value.set_narrow(FindNarrowType(proto.data_type()));
    return value;
  }
  return Invalid("there is no tensor attribute {}", name);
}

absl::StatusOr<std::vector<Value>> Node::Run(std::string_view attr,
                                             std::vector<Value> inputs,
                                             size_t num_outputs,
                                             std::string_view label) {
  const AttributeProto* graph = Find(attr, AttributeProto::GRAPH);
  if (graph == nullptr) return Invalid("there is no subgraph {}", attr);
  if (static_cast<size_t>(graph->g().output_size()) < num_outputs) {
    return Invalid("subgraph {} has {} outputs, it should have {}", attr,
                   graph->g().output_size(), num_outputs);
  }
  return importer_.run_subgraph(graph->g(), std::move(inputs), label);
}

bool Node::WantsOutput(int output) const {
  return output < num_outputs() &&
         importer_.reads.contains(proto_.output(output));
}

absl::Status Node::SetOutput(int output, absl::StatusOr<Value> value) {
  if (!value.ok()) return value.status();
  if (output < num_outputs()) outputs_[output] = *std::move(value);
  return absl::OkStatus();
}

absl::StatusOr<int> DimOf(int64_t axis, int rank) {
  int dim = NormalizeDim(axis, rank);
  if (dim < 0) return Invalid("axis {} of a value of rank {}", axis, rank);
  return dim;
}

}  // namespace asyra::onnx_import
