// A graph, a subgraph of a control flow op, or a function: named values and
// the nodes that compute them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"

namespace onnx {
class FunctionProto;
class GraphProto;
class NodeProto;
}  // namespace onnx

namespace asyra::onnx_import {

// Views into the model, which outlives it.
struct Body {
  // The nodes that the outputs need, each after those it reads from, otherwise
  // in the order of the file.
  std::vector<const onnx::NodeProto*> nodes;
  std::vector<std::string_view> inputs;
  std::vector<std::string_view> outputs;
  // Every name that these nodes, their subgraphs and the outputs read.
  absl::flat_hash_set<std::string_view> reads;
};

enum class GraphKind { kMain, kSubgraph };

// Errors: a name that is defined twice, a cycle, and a name that is read but
// not defined; a subgraph may read names of the graphs around it, which its
// node is taken to read.
absl::StatusOr<Body> BodyOf(const onnx::GraphProto& graph, GraphKind kind);
absl::StatusOr<Body> BodyOf(const onnx::FunctionProto& function);

// The nodes of a body that some of its outputs need.
Body ForOutputs(const Body& body, std::vector<std::string_view> outputs);

// A node's name; of one that has none, the name of its first output.
const std::string& NodeName(const onnx::NodeProto& node);

// The subgraphs among a node's attributes.
std::vector<const onnx::GraphProto*> SubgraphsOf(const onnx::NodeProto& node);

}  // namespace asyra::onnx_import
