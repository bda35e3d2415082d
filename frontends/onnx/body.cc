#include "frontends/onnx/body.h"

#include <algorithm>
#include <functional>
#include <queue>

#include "absl/container/flat_hash_map.h"
#include "ir/support/status.h"
#include "onnx/onnx.pb.h"

namespace asyra::onnx_import {
namespace {

using Names = std::vector<std::string_view>;

template <typename Infos>
Names NamesOf(const Infos& infos) {
  Names names;
  for (const auto& info : infos) names.push_back(info.name());
  return names;
}

Names InitializersOf(const onnx::GraphProto& graph) {
  Names names = NamesOf(graph.initializer());
  for (const auto& sparse : graph.sparse_initializer()) {
    names.push_back(sparse.values().name());
  }
  return names;
}

// The names that a node reads: its inputs, and names that its subgraphs use
// from outside.
void AddReads(const onnx::NodeProto& node, Names* reads) {
  for (const std::string& name : node.input()) {
    if (!name.empty()) reads->push_back(name);
  }
  for (const onnx::GraphProto* graph : SubgraphsOf(node)) {
    absl::flat_hash_set<std::string_view> own;
    for (std::string_view name : NamesOf(graph->input())) own.insert(name);
    for (std::string_view name : InitializersOf(*graph)) own.insert(name);
    Names inner = NamesOf(graph->output());
    for (const onnx::NodeProto& inside : graph->node()) {
      AddReads(inside, &inner);
      own.insert(inside.output().begin(), inside.output().end());
    }
    for (std::string_view name : inner) {
      if (!own.contains(name)) reads->push_back(name);
    }
  }
}

template <typename Nodes>
class Sorter {
 public:
  Sorter(const Nodes& nodes, bool may_read_outside)
      : nodes_(nodes),
        may_read_outside_(may_read_outside),
        reads_(nodes.size()),
        needed_(nodes.size(), false) {}

  // A name may be both an input and an initializer, which is then its default.
  absl::Status Define(const Names& names, std::string_view what) {
    absl::flat_hash_set<std::string_view> own;
    for (std::string_view name : names) {
      if (name.empty() || !own.insert(name).second) {
        return Invalid("two {} are called '{}'", what, name);
      }
    }
    given_.insert(own.begin(), own.end());
    return absl::OkStatus();
  }

  // Sets the body's nodes and what they read.
  absl::Status Sort(Body* body) {
    ASYRA_RETURN_IF_ERROR(IndexOutputs());
    ASYRA_RETURN_IF_ERROR(MarkNeeded(body->outputs));
    for (const Names& names : reads_) {
      body->reads.insert(names.begin(), names.end());
    }
    body->reads.insert(body->outputs.begin(), body->outputs.end());
    ASYRA_ASSIGN_OR_RETURN(body->nodes, Order());
    return absl::OkStatus();
  }

 private:
  absl::Status IndexOutputs() {
    for (int i = 0; i < nodes_.size(); ++i) {
      for (const std::string& name : nodes_[i].output()) {
        if (name.empty()) continue;
        if (given_.contains(name) || !producer_.emplace(name, i).second) {
          return Invalid("'{}' is defined twice", name);
        }
      }
    }
    return absl::OkStatus();
  }

  // The node that defines `name`, or -1 for what is given.
  absl::StatusOr<int> ProducerOf(std::string_view name,
                                 std::string_view reader) const {
    auto found = producer_.find(name);
    if (found != producer_.end()) return found->second;
    if (may_read_outside_ || given_.contains(name)) return -1;
    return Invalid("{} reads '{}', which nothing defines", reader, name);
  }

  absl::Status Need(std::string_view name, std::string_view reader) {
    ASYRA_ASSIGN_OR_RETURN(int producer, ProducerOf(name, reader));
    if (producer >= 0 && !needed_[producer]) {
      needed_[producer] = true;
      open_.push_back(producer);
    }
    return absl::OkStatus();
  }

  absl::Status MarkNeeded(const Names& outputs) {
    for (std::string_view name : outputs) {
      ASYRA_RETURN_IF_ERROR(Need(name, "the list of outputs"));
    }
    while (!open_.empty()) {
      int index = open_.back();
      open_.pop_back();
      const onnx::NodeProto& node = nodes_[index];
      AddReads(node, &reads_[index]);
      for (std::string_view name : reads_[index]) {
        ASYRA_RETURN_IF_ERROR(Need(
            name, fmt::format("{} node '{}'", node.op_type(), NodeName(node))));
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<const onnx::NodeProto*>> Order() const {
    std::vector<std::vector<int>> readers(needed_.size());
    std::vector<int> waits(needed_.size(), 0);
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;
    for (int i = 0; i < nodes_.size(); ++i) {
      if (!needed_[i]) continue;
      for (std::string_view name : reads_[i]) {
        auto found = producer_.find(name);
        if (found == producer_.end()) continue;
        readers[found->second].push_back(i);
        ++waits[i];
      }
      if (waits[i] == 0) ready.push(i);
    }
    std::vector<const onnx::NodeProto*> order;
    while (!ready.empty()) {
      int next = ready.top();
      ready.pop();
      order.push_back(&nodes_[next]);
      for (int reader : readers[next]) {
        if (--waits[reader] == 0) ready.push(reader);
      }
    }
    for (int i = 0; i < nodes_.size(); ++i) {
      if (waits[i] > 0) {
        return Invalid("{} node '{}' needs its own result: the graph is cyclic",
                       nodes_[i].op_type(), NodeName(nodes_[i]));
      }
    }
    return order;
  }

  const Nodes& nodes_;
  bool may_read_outside_;
  absl::flat_hash_set<std::string_view> given_;
  absl::flat_hash_map<std::string_view, int> producer_;
  std::vector<Names> reads_;  // of the nodes that are needed
  std::vector<bool> needed_;
  std::vector<int> open_;
};

}  // namespace

Body ForOutputs(const Body& body, std::vector<std::string_view> outputs) {
  Body part{.nodes = {},
            .inputs = body.inputs,
            .outputs = std::move(outputs),
            .reads = {}};
  part.reads.insert(part.outputs.begin(), part.outputs.end());
  for (auto node = body.nodes.rbegin(); node != body.nodes.rend(); ++node) {
    bool is_read = std::any_of(
        (*node)->output().begin(), (*node)->output().end(),
        [&](const std::string& name) { return part.reads.contains(name); });
    if (!is_read) continue;
    Names reads;
    AddReads(**node, &reads);
    part.reads.insert(reads.begin(), reads.end());
    part.nodes.push_back(*node);
  }
  std::reverse(part.nodes.begin(), part.nodes.end());
  return part;
}

const std::string& NodeName(const onnx::NodeProto& node) {
  if (!node.name().empty()) return node.name();
  for (const std::string& output : node.output()) {
    if (!output.empty()) return output;
  }
  return node.name();
}

std::vector<const onnx::GraphProto*> SubgraphsOf(const onnx::NodeProto& node) {
  std::vector<const onnx::GraphProto*> graphs;
  for (const onnx::AttributeProto& attr : node.attribute()) {
    if (attr.has_g()) graphs.push_back(&attr.g());
    for (const onnx::GraphProto& graph : attr.graphs()) {
      graphs.push_back(&graph);
    }
  }
  return graphs;
}

absl::StatusOr<Body> BodyOf(const onnx::GraphProto& graph, GraphKind kind) {
  Body body{.nodes = {},
            .inputs = NamesOf(graph.input()),
            .outputs = NamesOf(graph.output()),
            .reads = {}};
  if (body.outputs.empty()) return Invalid("the graph has no output");
  Sorter sorter(graph.node(), kind == GraphKind::kSubgraph);
  ASYRA_RETURN_IF_ERROR(sorter.Define(body.inputs, "inputs"));
  ASYRA_RETURN_IF_ERROR(sorter.Define(InitializersOf(graph), "initializers"));
  ASYRA_RETURN_IF_ERROR(sorter.Sort(&body));
  return body;
}

absl::StatusOr<Body> BodyOf(const onnx::FunctionProto& function) {
  Body body;
  body.inputs.assign(function.input().begin(), function.input().end());
  body.outputs.assign(function.output().begin(), function.output().end());
  Sorter sorter(function.node(), false);
  ASYRA_RETURN_IF_ERROR(sorter.Define(body.inputs, "inputs"));
  ASYRA_RETURN_IF_ERROR(sorter.Sort(&body));
  return body;
}

}  // namespace asyra::onnx_import
