#include "frontends/onnx/node_order.h"

#include <functional>
#include <queue>

#include "absl/container/flat_hash_map.h"
#include "ir/support/status.h"
#include "onnx/onnx.pb.h"

namespace asyra::onnx_import {
namespace {

class Sorter {
 public:
  Sorter(const onnx::GraphProto& graph,
         const absl::flat_hash_set<std::string>& given)
      : graph_(graph), given_(given), needed_(graph.node_size(), false) {}

  absl::StatusOr<std::vector<int>> Sort() {
    ASYRA_RETURN_IF_ERROR(IndexOutputs());
    ASYRA_RETURN_IF_ERROR(MarkNeeded());
    return Order();
  }

 private:
  absl::Status IndexOutputs() {
    for (int i = 0; i < graph_.node_size(); ++i) {
      for (const std::string& name : graph_.node(i).output()) {
        if (name.empty()) continue;
        if (given_.contains(name) || !producer_.emplace(name, i).second) {
          return Invalid("'{}' is defined twice", name);
        }
      }
    }
    return absl::OkStatus();
  }

  // The node that defines `name`, or -1 for inputs and initializers.
  absl::StatusOr<int> ProducerOf(const std::string& name,
                                 std::string_view reader) const {
    auto found = producer_.find(name);
    if (found != producer_.end()) return found->second;
    if (given_.contains(name)) return -1;
    return Invalid("{} reads '{}', which nothing defines", reader, name);
  }

  absl::Status Need(const std::string& name, std::string_view reader) {
    ASYRA_ASSIGN_OR_RETURN(int producer, ProducerOf(name, reader));
    if (producer >= 0 && !needed_[producer]) {
      needed_[producer] = true;
      open_.push_back(producer);
    }
    return absl::OkStatus();
  }

  absl::Status MarkNeeded() {
    for (const auto& output : graph_.output()) {
      ASYRA_RETURN_IF_ERROR(Need(output.name(), "the list of outputs"));
    }
    while (!open_.empty()) {
      const onnx::NodeProto& node = graph_.node(open_.back());
      open_.pop_back();
      for (const std::string& name : node.input()) {
        if (name.empty()) continue;
        ASYRA_RETURN_IF_ERROR(Need(
            name, fmt::format("{} node '{}'", node.op_type(), node.name())));
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<int>> Order() const {
    std::vector<std::vector<int>> readers(needed_.size());
    std::vector<int> waits(needed_.size(), 0);
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;
    for (int i = 0; i < graph_.node_size(); ++i) {
      if (!needed_[i]) continue;
      for (const std::string& name : graph_.node(i).input()) {
        auto found = producer_.find(name);
        if (name.empty() || found == producer_.end()) continue;
        readers[found->second].push_back(i);
        ++waits[i];
      }
      if (waits[i] == 0) ready.push(i);
    }
    std::vector<int> order;
    while (!ready.empty()) {
      order.push_back(ready.top());
      ready.pop();
      for (int reader : readers[order.back()]) {
        if (--waits[reader] == 0) ready.push(reader);
      }
    }
    for (int i = 0; i < graph_.node_size(); ++i) {
      if (waits[i] > 0) {
        return Invalid("{} node '{}' needs its own result: the graph is cyclic",
                       graph_.node(i).op_type(), graph_.node(i).name());
      }
    }
    return order;
  }

  const onnx::GraphProto& graph_;
  const absl::flat_hash_set<std::string>& given_;
  absl::flat_hash_map<std::string, int> producer_;
  std::vector<bool> needed_;
  std::vector<int> open_;
};

}  // namespace

absl::StatusOr<std::vector<int>> NodeOrder(
    const onnx::GraphProto& graph,
    const absl::flat_hash_set<std::string>& given) {
  return Sorter(graph, given).Sort();
}

}  // namespace asyra::onnx_import
