// How often ops of a model read parameters, by operand.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>

#include "onnx/onnx.pb.h"

namespace asyra {

// Of {domain:name, operand}; operand kCaptured stands for what a subgraph of
// the op reads. A sequence that holds parameters counts as one.
using ReadCounts = std::map<std::pair<std::string, int>, int>;
inline constexpr int kCaptured = -1;

// Adds the reads of the names in `params` by the graph's nodes.
void CountReads(const onnx::GraphProto& graph, std::set<std::string> params,
                ReadCounts* counts);

// "Gemm 0 1 2, If captured, .." with the counts of each.
std::string ToString(const ReadCounts& counts);

}  // namespace asyra
