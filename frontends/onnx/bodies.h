// The functions and subgraphs of a model, each analysed once.
#pragma once

#include <deque>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "frontends/onnx/body.h"
#include "frontends/onnx/opsets.h"

namespace onnx {
class ModelProto;
}

namespace asyra::onnx_import {

struct Function {
  const onnx::FunctionProto* proto;
  std::string name;  // with its domain, and its overload if it has one
  Body body;
  Opsets opsets;  // for domains it does not import, those of the model
};

class Bodies {
 public:
  // Errors: two functions of one domain, name and overload; those of BodyOf
  // and of ReadOpsets, with the function's name.
  static absl::StatusOr<Bodies> Create(const onnx::ModelProto& model,
                                       const Opsets& opsets);

  // The function that a node calls, or null. A function of the model
  // takes precedence over an op of the same name.
  const Function* FindFunction(const onnx::NodeProto& node) const;
  // Valid as long as this.
  absl::StatusOr<const Body*> Subgraph(const onnx::GraphProto& graph);

 private:
  std::deque<Function> functions_;
  absl::flat_hash_map<std::string, const Function*> by_name_;
  std::deque<Body> subgraphs_;
  absl::flat_hash_map<const onnx::GraphProto*, const Body*> by_graph_;
};

}  // namespace asyra::onnx_import
