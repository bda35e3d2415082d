#include "frontends/onnx/op_check.h"

#include <map>

#include "frontends/onnx/op_table.h"
#include "ir/support/status.h"
#include "onnx/onnx.pb.h"

namespace asyra::onnx_import {
namespace {

class OpCheck {
 public:
  explicit OpCheck(Bodies& bodies) : bodies_(bodies) {}

  absl::Status Run(const Body& body, const Opsets& opsets) {
    ASYRA_RETURN_IF_ERROR(Visit(body, opsets));
    if (unknown_.empty()) return absl::OkStatus();
    while (!branches_.empty()) {
      auto [branch, branch_opsets] = branches_.back();
      branches_.pop_back();
      ASYRA_RETURN_IF_ERROR(Visit(*branch, *branch_opsets));
    }
    return Unimplemented("ops that are not supported: {}", List());
  }

 private:
  struct Unknown {
    std::string node;  // the first one
    int count = 0;
  };

  absl::Status Visit(const Body& body, const Opsets& opsets) {
    for (const onnx::NodeProto* node : body.nodes) {
      ASYRA_RETURN_IF_ERROR(VisitNode(*node, opsets));
    }
    return absl::OkStatus();
  }

  absl::Status VisitNode(const onnx::NodeProto& node, const Opsets& opsets) {
    if (const Function* function = bodies_.FindFunction(node)) {
      return VisitFunction(*function);
    }
    if (FindSpelling(node, opsets) == nullptr) {
      Unknown& unknown = unknown_[Describe(node, opsets)];
      if (unknown.count++ == 0) unknown.node = NodeName(node);
    }
    for (const onnx::GraphProto* graph : SubgraphsOf(node)) {
      ASYRA_ASSIGN_OR_RETURN(const Body* body, bodies_.Subgraph(*graph));
      if (node.op_type() == "If") {
        branches_.emplace_back(body, &opsets);
        continue;
      }
      ASYRA_RETURN_IF_ERROR(Visit(*body, opsets));
    }
    return absl::OkStatus();
  }

  absl::Status VisitFunction(const Function& function) {
    auto [entry, added] = open_.emplace(&function, true);
    if (!added) {
      if (!entry->second) return absl::OkStatus();
      return Invalid("function {} calls itself", function.name);
    }
    if (++depth_ > kMostNesting) {
      return Unimplemented("function {} is called {} functions deep",
                           function.name, kMostNesting);
    }
    ASYRA_RETURN_IF_ERROR(Visit(function.body, function.opsets));
    --depth_;
    open_[&function] = false;
    return absl::OkStatus();
  }

  static std::string Describe(const onnx::NodeProto& node,
                              const Opsets& opsets) {
    auto opset = opsets.find(CanonicalDomain(node.domain()));
    return fmt::format("{} ({})", SpelledOp(node.domain(), node.op_type()),
                       opset == opsets.end()
                           ? "not imported by the model"
                           : fmt::format("opset {}", opset->second));
  }

  std::string List() const {
    std::string list;
    for (const auto& [op, unknown] : unknown_) {
      list += fmt::format("{}{} at node '{}'", list.empty() ? "" : ", ", op,
                          unknown.node);
      if (unknown.count > 1) {
        list += fmt::format(" and {} more", unknown.count - 1);
      }
    }
    return list;
  }

  Bodies& bodies_;
  std::map<std::string, Unknown> unknown_;
  std::vector<std::pair<const Body*, const Opsets*>> branches_;
  // Functions that have been looked at; true while that is going on.
  absl::flat_hash_map<const Function*, bool> open_;
  int depth_ = 0;
};

}  // namespace

absl::Status CheckOps(const Body& body, const Opsets& opsets, Bodies& bodies) {
  return OpCheck(bodies).Run(body, opsets);
}

}  // namespace asyra::onnx_import
