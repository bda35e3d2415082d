// Static shapes for graph inputs whose dimensions are symbolic.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "frontends/onnx/import.h"
#include "ir/type.h"

namespace onnx {
class GraphProto;
class ValueInfoProto;
}  // namespace onnx

namespace asyra::onnx_import {

struct GraphInput {
  std::string name;
  Type type;
  std::vector<std::string> dim_names;  // "" where a dimension has none
  bool symbolic = false;               // some dimension was bound by name
};

// The graph's inputs, those with an initializer left out. Errors: an input
// that is no dense tensor; dimensions without a size (all in one message, with
// the flags to give as a shell takes them); names in options.dims that no input
// has; sizes below 0, and ones that contradict an expression of others.
absl::StatusOr<std::vector<GraphInput>> BindInputs(
    const onnx::GraphProto& graph, const ImportOptions& options);

// Refuses an output whose declared type contradicts the computed one.
absl::Status CheckOutput(const onnx::ValueInfoProto& declared,
                         const std::map<std::string, int64_t>& dims,
                         const Type& computed);

}  // namespace asyra::onnx_import
