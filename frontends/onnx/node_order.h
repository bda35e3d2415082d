// The order in which a graph's nodes are imported.
#pragma once

#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"

namespace onnx {
class GraphProto;
}

namespace asyra::onnx_import {

// Indices of the nodes that the graph's outputs need, each after the nodes it
// reads from, otherwise in the order of the file. `given` are the names of
// inputs and initializers. Errors: a name that is read but not defined, one
// that is defined twice, a cycle.
absl::StatusOr<std::vector<int>> NodeOrder(
    const onnx::GraphProto& graph,
    const absl::flat_hash_set<std::string>& given);

}  // namespace asyra::onnx_import
