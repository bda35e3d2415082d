#include "frontends/onnx/body_importer.h"

#include "absl/strings/escaping.h"
#include "frontends/onnx/exported_names.h"
#include "frontends/onnx/narrow_type.h"
#include "frontends/onnx/op_check.h"
#include "frontends/onnx/op_table.h"
#include "frontends/onnx/ops/ops.h"
#include "frontends/onnx/sparse_tensor.h"
#include "ir/support/status.h"
#include "onnx/onnx.pb.h"

namespace asyra::onnx_import {
namespace {

// A few kilobytes can contain deeply nested loops.
constexpr int64_t kMostInlined = 1 << 19;

absl::Status CheckInputs(const OpSpelling& spelling,
                         const std::vector<std::optional<Value>>& inputs) {
  auto count = static_cast<int>(inputs.size());
  if (count < spelling.min_inputs ||
      (spelling.max_inputs >= 0 && count > spelling.max_inputs)) {
    return Invalid("it has {} inputs, {} takes {} to {}", count, spelling.name,
                   spelling.min_inputs,
                   spelling.max_inputs < 0
                       ? "any number"
                       : std::to_string(spelling.max_inputs));
  }
  for (int i = 0; i < count; ++i) {
    if (!inputs[i].has_value() &&
        (i < spelling.min_inputs || spelling.max_inputs == OpSpelling::kAny)) {
      return Invalid("input {} is left out", i);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::optional<Value>>> InputsOf(
    const onnx::NodeProto& node, const Scope& scope) {
  std::vector<std::optional<Value>> inputs;
  for (const std::string& name : node.input()) {
    inputs.emplace_back();
    if (name.empty()) continue;
    const std::optional<Value>* value = scope.Find(name);
    if (value == nullptr) {
      return Invalid("input '{}' is an output that its op does not give", name);
    }
    inputs.back() = *value;
  }
  return inputs;
}

// A narrow type of the inputs is also that of the results that it carries.
// Values that are known must fit it; others do where the op only moves them.
absl::Status CarryNarrowType(const OpSpelling& spelling, const Node& node,
                             Value* value) {
  using ImportFunction = absl::Status (*)(Node&);
  static constexpr ImportFunction kOwnType[] = {ops::Cast, ops::CastLike,
                                                ops::Shape, ops::Size};
  static constexpr ImportFunction kMoves[] = {
      ops::Concat,         ops::Expand,   ops::Flatten,  ops::Gather,
      ops::GatherElements, ops::GatherND, ops::Identity, ops::Reshape,
      ops::Slice,          ops::Split,    ops::Squeeze,  ops::Transpose,
      ops::Unsqueeze};
  auto is_one_of = [&](const auto& functions) {
    return std::find(std::begin(functions), std::end(functions),
                     spelling.import) != std::end(functions);
  };
  if (value->is_sequence()) return absl::OkStatus();
  for (int i = 0; i < node.num_inputs(); ++i) {
    const NarrowType* type = node.Has(i) ? node.In(i).narrow() : nullptr;
    if (type != nullptr && type->carrier == value->dtype() &&
        !is_one_of(kOwnType)) {
      value->set_narrow(type);
    }
  }
  const NarrowType* type = value->narrow();
  if (type == nullptr) return absl::OkStatus();
  bool fits = is_one_of(kMoves) ||
              (is_one_of(kOwnType) && node.dtype() == DType::kBool);
  if (!value->known() && !fits) {
    return Unimplemented("{} is supported for constants only", type->name);
  }
  for (int64_t i = 0; value->known() && i < value->data().num_elements(); ++i) {
    int64_t element = value->data().GetInt(i);
    if (element < type->low() || element > type->high()) {
      return Unimplemented("its result {} does not fit {}", element,
                           type->name);
    }
  }
  return absl::OkStatus();
}

// Null where the name alone says it.
std::shared_ptr<const WeightOrigin> OriginUnless(const std::string& name,
                                                 const WeightOrigin& origin) {
  if (name == origin.tensor && origin.stored_as.empty()) return nullptr;
  return std::make_shared<WeightOrigin>(origin);
}

// Weights by the module that an exporter says they are of.
class ModuleNames {
 public:
  explicit ModuleNames(std::map<std::string, ExportedName, std::less<>> names)
      : names_(std::move(names)) {}

  struct Known {
    WeightOrigin origin;
    // The weight of the same module and bytes that was entered before, or null.
    const Value* shared = nullptr;
  };
  // The later one of two that have a module's name but other bytes keeps its
  // own name.
  Known Find(const std::string& initializer, const Tensor& tensor) const {
    Known known = {{.tensor = initializer, .shape = tensor.shape()}};
    auto named = names_.find(initializer);
    if (named == names_.end()) return known;
    auto other = entered_.find(named->second.name);
    if (other != entered_.end()) {
      if (!SameBytes(other->second.first, tensor)) return known;
      known.shared = &other->second.second;
    }
    known.origin.tensor = named->second.name;
    known.origin.stored_as = initializer;
    known.origin.transposed = named->second.transposed;
    return known;
  }

  void Enter(const std::string& initializer, const Tensor& tensor,
             const Value& value) {
    auto named = names_.find(initializer);
    if (named == names_.end()) return;
    entered_.try_emplace(named->second.name, tensor, value);
  }

 private:
  std::map<std::string, ExportedName, std::less<>> names_;
  std::map<std::string, std::pair<Tensor, Value>> entered_;
};

}  // namespace

std::string IrName(std::string_view name) {
  std::string result(name);
  for (char& c : result) {
    bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                (c >= '0' && c <= '9') || c == '_' || c == '.';
    if (!word) c = '_';
  }
  return result;
}

BodyImporter::BodyImporter(Bodies& bodies, const Node::ReadTensor& read_tensor,
                           Graph& graph)
    : bodies_(bodies), read_tensor_(read_tensor), graph_(graph) {}

bool BodyImporter::IsParameter(const std::string& name,
                               const Tensor& tensor) const {
  if (!IsFloat(tensor.dtype()) || tensor.num_elements() == 0) return false;
  return tensor.num_elements() > 1 || MayBeParameter(name, tensor) ||
         (numbers_.has_value() && numbers_->Matches(name));
}

// Integers, masks and most single numbers take part in shape arithmetic and are
// known; the rest are the model's parameters.
absl::Status BodyImporter::AddInitializers(const onnx::GraphProto& graph,
                                           const Body& body, Scope* scope) {
  auto [entry, added] = initializers_.try_emplace(&graph);
  ModuleNames modules(added
                          ? ExportedNames(graph)
                          : std::map<std::string, ExportedName, std::less<>>());
  auto add = [&, &values = entry->second](const onnx::TensorProto& proto,
                                          const Tensor& tensor) {
    auto [origin, shared] = modules.Find(proto.name(), tensor);
    std::string name = scope->prefix + IrName(origin.tensor);
    Value value;
    if (shared != nullptr) {
      value = *shared;
      graph_.AddCopy(value, {.tensor = origin.tensor,
                             .stored_as = origin.stored_as,
                             .stored_transposed = origin.transposed});
    } else if (IsParameter(proto.name(), tensor)) {
      value = graph_.Weight(name, tensor, OriginUnless(name, origin));
      modules.Enter(proto.name(), tensor, value);
    } else {
      value = Value::Known(tensor);
    }
    value.set_name(name);
    value.set_narrow(FindNarrowType(proto.data_type()));
    values.emplace_back(proto.name(), std::move(value));
  };
  if (added) {
    for (const auto& proto : graph.initializer()) {
      if (!body.reads.contains(proto.name())) continue;
      ASYRA_ASSIGN_OR_RETURN(Tensor tensor, read_tensor_(proto));
      add(proto, tensor);
    }
    for (const auto& proto : graph.sparse_initializer()) {
      if (!body.reads.contains(proto.values().name())) continue;
      ASYRA_ASSIGN_OR_RETURN(Tensor tensor,
                             TensorFromSparse(proto, read_tensor_));
      add(proto.values(), tensor);
    }
  }
  for (const auto& [name, value] : entry->second) scope->values[name] = value;
  return absl::OkStatus();
}

absl::Status BodyImporter::Import(const Body& body, Scope* scope) {
  scope->reads = &body.reads;
  if (scope->depth > 0) {
    inlined_ += static_cast<int64_t>(body.nodes.size());
    if (inlined_ > kMostInlined) {
      return Unimplemented(
          "the model's functions and loops have more than {} nodes when they "
          "are written out",
          kMostInlined);
    }
  }
  for (const onnx::NodeProto* node : body.nodes) {
    if (bodies_.FindFunction(*node) == nullptr &&
        FindSpelling(*node, *scope->opsets) == nullptr) {
      // In a branch of an If that was not known to be taken.
      return CheckOps(body, *scope->opsets, bodies_);
    }
    ASYRA_RETURN_IF_ERROR(ImportNode(*node, scope));
  }
  return absl::OkStatus();
}

absl::Status BodyImporter::ImportNode(const onnx::NodeProto& proto,
                                      Scope* scope) {
  absl::Status status = TryImportNode(proto, scope);
  if (status.ok()) return status;
  return Annotate(
      status, fmt::format("{} node '{}'", proto.op_type(), NodeName(proto)));
}

absl::Status BodyImporter::TryImportNode(const onnx::NodeProto& proto,
                                         Scope* scope) {
  ASYRA_ASSIGN_OR_RETURN(Inputs inputs, InputsOf(proto, *scope));
  ASYRA_ASSIGN_OR_RETURN(Attributes attributes, AttributesOf(proto, *scope));
  if (const Function* function = bodies_.FindFunction(proto)) {
    return Call(proto, *function, inputs, attributes, scope);
  }
  return ImportOp(proto, *FindSpelling(proto, *scope->opsets),
                  std::move(inputs), std::move(attributes), scope);
}

absl::Status BodyImporter::ImportOp(const onnx::NodeProto& proto,
                                    const OpSpelling& spelling, Inputs inputs,
                                    Attributes attributes, Scope* scope) {
  ASYRA_RETURN_IF_ERROR(CheckInputs(spelling, inputs));
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].has_value() && inputs[i]->is_sequence() &&
        spelling.takes == Takes::kTensors) {
      return Unimplemented("input '{}' is a sequence",
                           proto.input(static_cast<int>(i)));
    }
  }
  Node::RunSubgraph run = [&](const onnx::GraphProto& graph,
                              std::vector<Value> values,
                              std::string_view label) {
    std::string name = scope->prefix + IrName(NodeName(proto)) + ".";
    if (!label.empty()) name += std::string(label) + ".";
    return RunSubgraph(graph, std::move(values), name, *scope);
  };
  std::string name =
      scope->prefix + IrName(proto.output_size() > 0 ? proto.output(0) : "");
  graph_.set_name(name);
  graph_.set_source(fmt::format("{} node '{}{}'", proto.op_type(),
                                scope->prefix,
                                absl::Utf8SafeCEscape(NodeName(proto))));
  Node node(proto, scope->opsets->at(CanonicalDomain(proto.domain())),
            spelling.ir_op, std::move(inputs), std::move(attributes),
            {read_tensor_, run, graph_, *scope->reads});
  ASYRA_RETURN_IF_ERROR(spelling.import(node));
  ASYRA_RETURN_IF_ERROR(node.status());
  for (int i = 0; i < proto.output_size(); ++i) {
    if (proto.output(i).empty() || !node.output(i).has_value()) continue;
    Value value = *node.output(i);
    ASYRA_RETURN_IF_ERROR(CarryNarrowType(spelling, node, &value));
    if (value.name().empty()) {
      value.set_name(scope->prefix + IrName(proto.output(i)));
    }
    scope->values[proto.output(i)] = std::move(value);
  }
  return absl::OkStatus();
}

absl::Status BodyImporter::Call(const onnx::NodeProto& proto,
                                const Function& function, const Inputs& inputs,
                                const Attributes& attributes, Scope* scope) {
  const Body& body = function.body;
  if (inputs.size() > body.inputs.size()) {
    return Invalid("it has {} inputs, function {} takes {}", inputs.size(),
                   function.name, body.inputs.size());
  }
  if (static_cast<size_t>(proto.output_size()) > body.outputs.size()) {
    return Invalid("it has {} outputs, function {} gives {}",
                   proto.output_size(), function.name, body.outputs.size());
  }
  ASYRA_ASSIGN_OR_RETURN(Attributes bound,
                         BindAttributes(function, attributes));
  Scope inner;
  inner.opsets = &function.opsets;
  inner.attributes = &bound;
  inner.prefix = scope->prefix + IrName(NodeName(proto)) + ".";
  inner.depth = scope->depth + 1;
  for (size_t i = 0; i < body.inputs.size(); ++i) {
    inner.values[body.inputs[i]] = i < inputs.size() ? inputs[i] : std::nullopt;
  }
  // Only what the caller reads is imported: an op may not give the rest.
  std::vector<std::string_view> names, read;
  for (int i = 0; i < proto.output_size(); ++i) {
    if (!scope->reads->contains(proto.output(i))) continue;
    names.push_back(proto.output(i));
    read.push_back(body.outputs[i]);
  }
  ASYRA_ASSIGN_OR_RETURN(std::vector<Value> outputs,
                         Run(ForOutputs(body, std::move(read)), &inner));
  for (size_t i = 0; i < names.size(); ++i) {
    scope->values[names[i]] = outputs[i];
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Value>> BodyImporter::RunSubgraph(
    const onnx::GraphProto& graph, std::vector<Value> inputs,
    std::string_view label, const Scope& outer) {
  ASYRA_ASSIGN_OR_RETURN(const Body* body, bodies_.Subgraph(graph));
  if (inputs.size() != body->inputs.size()) {
    return Invalid("subgraph '{}' has {} inputs, it should have {}",
                   graph.name(), body->inputs.size(), inputs.size());
  }
  Scope inner;
  inner.outer = &outer;
  inner.opsets = outer.opsets;
  inner.attributes = outer.attributes;
  inner.prefix = std::string(label);
  inner.depth = outer.depth + 1;
  ASYRA_RETURN_IF_ERROR(AddInitializers(graph, *body, &inner));
  for (size_t i = 0; i < inputs.size(); ++i) {
    inner.values[body->inputs[i]] = std::move(inputs[i]);
  }
  return Run(*body, &inner);
}

absl::StatusOr<std::vector<Value>> BodyImporter::Run(const Body& body,
                                                     Scope* scope) {
  if (scope->depth > kMostNesting) {
    return Unimplemented("functions and subgraphs are nested {} deep",
                         kMostNesting);
  }
  std::string name = graph_.name(), source = graph_.source();
  ASYRA_RETURN_IF_ERROR(Import(body, scope));
  graph_.set_name(std::move(name));
  graph_.set_source(std::move(source));
  std::vector<Value> outputs;
  for (std::string_view output : body.outputs) {
    const std::optional<Value>* value = scope->Find(output);
    if (value == nullptr || !value->has_value()) {
      return Invalid("output '{}' is one that its op does not give", output);
    }
    outputs.push_back(**value);
  }
  return outputs;
}

}  // namespace asyra::onnx_import
