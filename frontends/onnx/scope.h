// The values of names in a graph, a subgraph or a call of a function.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "frontends/onnx/opsets.h"
#include "frontends/onnx/value.h"

namespace onnx {
class AttributeProto;
class NodeProto;
}  // namespace onnx

namespace asyra::onnx_import {

struct Function;

// Attributes by name, each as the model has it: pointers into the model.
using Attributes =
    std::vector<std::pair<std::string_view, const onnx::AttributeProto*>>;

struct Scope {
  // The value of a name, here or around a subgraph; null where nothing has
  // defined it. An input that a function's caller leaves out is std::nullopt.
  const std::optional<Value>* Find(std::string_view name) const;

  const Scope* outer = nullptr;  // around a subgraph; null for the others
  const Opsets* opsets = nullptr;
  // Every name that the body reads; null before it is imported.
  const absl::flat_hash_set<std::string_view>* reads = nullptr;
  // The attributes that `ref_attr_name` refers to; null outside of functions.
  const Attributes* attributes = nullptr;
  // The prefix of the names of ops: "layer_call.", "loop.3.".
  std::string prefix;
  int depth = 0;
  // Names are views into the model.
  absl::flat_hash_map<std::string_view, std::optional<Value>> values;
};

// A node's attributes, with references to attributes of the function resolved;
// a reference to an attribute that the caller leaves out is dropped. Error: a
// reference outside of a function.
absl::StatusOr<Attributes> AttributesOf(const onnx::NodeProto& node,
                                        const Scope& scope);

// The attributes that the body of a function sees when it is called with these:
// they and the defaults of others. Error: one that the function does not have.
absl::StatusOr<Attributes> BindAttributes(const Function& function,
                                          const Attributes& given);

}  // namespace asyra::onnx_import
