#include "tests/onnx_train/read_counts.h"

#include "fmt/format.h"

namespace asyra {
namespace {

bool GivesSequence(const onnx::NodeProto& node) {
  static const auto* ops =
      new std::set<std::string>{"SequenceConstruct", "SequenceInsert",
                                "SequenceErase", "SplitToSequence"};
  return ops->contains(node.op_type());
}

}  // namespace

void CountReads(const onnx::GraphProto& graph, std::set<std::string> params,
                ReadCounts* counts) {
  for (const onnx::NodeProto& node : graph.node()) {
    std::string op = fmt::format("{}:{}", node.domain(), node.op_type());
    bool reads = false;
    for (int i = 0; i < node.input_size(); ++i) {
      if (!params.contains(node.input(i))) continue;
      ++(*counts)[{op, i}];
      reads = true;
    }
    if (reads && GivesSequence(node)) params.insert(node.output(0));
    for (const onnx::AttributeProto& attr : node.attribute()) {
      if (!attr.has_g()) continue;
      ReadCounts inside;
      CountReads(attr.g(), params, &inside);
      for (const auto& [place, count] : inside) (*counts)[place] += count;
      if (!inside.empty()) ++(*counts)[{op, kCaptured}];
    }
  }
}

std::string ToString(const ReadCounts& counts) {
  std::string text, last;
  for (const auto& [place, count] : counts) {
    const auto& [op, operand] = place;
    if (op != last) text += fmt::format("\n{}", op);
    last = op;
    text += operand == kCaptured ? fmt::format(" captured({})", count)
                                 : fmt::format(" {}({})", operand, count);
  }
  return text;
}

}  // namespace asyra
