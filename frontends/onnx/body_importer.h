// Imports the nodes of bodies into a program.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "frontends/onnx/bodies.h"
#include "frontends/onnx/graph.h"
#include "frontends/onnx/node.h"
#include "frontends/onnx/op_table.h"
#include "frontends/onnx/scope.h"
#include "ir/support/name_pattern.h"

namespace asyra::onnx_import {

// An ONNX name as the text form can write it.
std::string IrName(std::string_view name);

// Calls of functions and iterations of loops are imported one by one, each
// with names of its own. All arguments outlive the importer.
class BodyImporter {
 public:
  BodyImporter(Bodies& bodies, const Node::ReadTensor& read_tensor,
               Graph& graph);

  // Single numbers of these names are weights, whatever else they look like.
  void set_numbers(NamePattern pattern) { numbers_ = std::move(pattern); }

  // Enters the initializers of a graph that its body reads, and what the nodes
  // of a body compute. Errors name the nodes that lead to the place.
  absl::Status AddInitializers(const onnx::GraphProto& graph, const Body& body,
                               Scope* scope);
  absl::Status Import(const Body& body, Scope* scope);

 private:
  using Inputs = std::vector<std::optional<Value>>;

  absl::Status ImportNode(const onnx::NodeProto& proto, Scope* scope);
  absl::Status TryImportNode(const onnx::NodeProto& proto, Scope* scope);
  absl::Status ImportOp(const onnx::NodeProto& proto,
                        const OpSpelling& spelling, Inputs inputs,
                        Attributes attributes, Scope* scope);
  absl::Status Call(const onnx::NodeProto& proto, const Function& function,
                    const Inputs& inputs, const Attributes& attributes,
                    Scope* scope);
  absl::StatusOr<std::vector<Value>> RunSubgraph(const onnx::GraphProto& graph,
                                                 std::vector<Value> inputs,
                                                 std::string_view label,
                                                 const Scope& outer);
  // Imports a body within another and returns its outputs.
  absl::StatusOr<std::vector<Value>> Run(const Body& body, Scope* scope);
  // True for a stored tensor that becomes a weight; others are known.
  bool IsParameter(const std::string& name, const Tensor& tensor) const;

  Bodies& bodies_;
  const Node::ReadTensor& read_tensor_;
  Graph& graph_;
  std::optional<NamePattern> numbers_;
  int64_t inlined_ = 0;  // nodes imported within functions and subgraphs
  // Initializers of subgraphs, which are read once for all iterations.
  absl::flat_hash_map<const onnx::GraphProto*,
                      std::vector<std::pair<std::string_view, Value>>>
      initializers_;
};

}  // namespace asyra::onnx_import
