#include "frontends/onnx/bodies.h"

#include "ir/support/status.h"
#include "onnx/onnx.pb.h"

namespace asyra::onnx_import {
namespace {

std::string Key(const std::string& domain, const std::string& name,
                const std::string& overload) {
  return SpelledOp(domain, name) +
         (overload.empty() ? "" : fmt::format(" ({})", overload));
}

}  // namespace

absl::StatusOr<Bodies> Bodies::Create(const onnx::ModelProto& model,
                                      const Opsets& opsets) {
  Bodies bodies;
  for (const onnx::FunctionProto& proto : model.functions()) {
    std::string name = Key(proto.domain(), proto.name(), proto.overload());
    std::string place = fmt::format("function {}", name);
    absl::StatusOr<Body> body = BodyOf(proto);
    if (!body.ok()) return Annotate(body.status(), place);
    absl::StatusOr<Opsets> own = ReadOpsets(proto.opset_import());
    if (!own.ok()) return Annotate(own.status(), place);
    own->insert(opsets.begin(), opsets.end());  // keeps what is there
    const Function& function = bodies.functions_.emplace_back(
        Function{&proto, name, *std::move(body), *std::move(own)});
    if (!bodies.by_name_.emplace(name, &function).second) {
      return Invalid("function {} is defined twice", name);
    }
  }
  return bodies;
}

const Function* Bodies::FindFunction(const onnx::NodeProto& node) const {
  if (by_name_.empty()) return nullptr;
  auto found =
      by_name_.find(Key(node.domain(), node.op_type(), node.overload()));
  return found == by_name_.end() ? nullptr : found->second;
}

absl::StatusOr<const Body*> Bodies::Subgraph(const onnx::GraphProto& graph) {
  auto [entry, added] = by_graph_.emplace(&graph, nullptr);
  if (added) {
    absl::StatusOr<Body> body = BodyOf(graph, GraphKind::kSubgraph);
    if (!body.ok()) {
      by_graph_.erase(entry);
      return Annotate(body.status(),
                      fmt::format("subgraph '{}'", graph.name()));
    }
    entry->second = &subgraphs_.emplace_back(*std::move(body));
  }
  return entry->second;
}

}  // namespace asyra::onnx_import
