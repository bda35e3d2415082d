// Elements repeated, and moved between channels and space.
#include "frontends/onnx/ops/ops.h"

namespace asyra::onnx_import::ops {

// [a, b] repeated [m, n] times is [1, a, 1, b] broadcast to [m, a, n, b].
absl::Status Tile(Node& node) {
  ASYRA_ASSIGN_OR_RETURN(Ints repeats, node.KnownInts(1, "repeats"));
  if (static_cast<int>(repeats.size()) != node.rank()) {
    return Invalid("{} repeats for an input of rank {}", repeats.size(),
                   node.rank());
  }
  asyra::Shape apart, spread, shape;
  for (int d = 0; d < node.rank(); ++d) {
    int64_t size = node.type().size(d), total;
    if (repeats[d] < 0 || __builtin_mul_overflow(size, repeats[d], &total)) {
      return Invalid("dim {} of size {} repeated {} times", d, size,
                     repeats[d]);
    }
    for (int64_t each : {int64_t{1}, size}) apart.push_back(each);
    for (int64_t each : {repeats[d], size}) spread.push_back(each);
    shape.push_back(total);
  }
  Graph& graph = node.graph();
  if (shape == node.In(0).shape()) return node.Return(node.In(0));
  ASYRA_ASSIGN_OR_RETURN(Value value, graph.Reshape(node.In(0), apart));
  ASYRA_ASSIGN_OR_RETURN(value, graph.Broadcast(value, spread));
  return node.Return(graph.Reshape(value, shape));
}

namespace {

// No product of two of them with a dim overflows.
bool IsBlock(int64_t b) { return b >= 1 && b <= int64_t{1} << 15; }

}  // namespace

// Channels become blocks: (blocks, c) in mode DCR, (c, blocks) in mode CRD.
absl::Status DepthToSpace(Node& node) {
  int64_t b = node.Int("blocksize", 0);
  std::string mode = node.String("mode", "DCR");
  asyra::Shape s = node.In(0).shape();
  if (s.size() != 4 || !IsBlock(b) || s[1] % (b * b) != 0) {
    return Invalid("blocks of {} of an input of shape {}", b, ShapeToString(s));
  }
  if (mode != "DCR" && mode != "CRD") {
    return Invalid("attribute mode is '{}', not DCR or CRD", mode);
  }
  Graph& graph = node.graph();
  int64_t c = s[1] / (b * b);
  bool dcr = mode == "DCR";
  asyra::Shape parted = dcr ? asyra::Shape{s[0], b, b, c, s[2], s[3]}
                            : asyra::Shape{s[0], c, b, b, s[2], s[3]};
  ASYRA_ASSIGN_OR_RETURN(Value value, graph.Reshape(node.In(0), parted));
  ASYRA_ASSIGN_OR_RETURN(
      value, graph.Transpose(
                 value, dcr ? Ints{0, 3, 4, 1, 5, 2} : Ints{0, 1, 4, 2, 5, 3}));
  return node.Return(graph.Reshape(value, {s[0], c, s[2] * b, s[3] * b}));
}

absl::Status SpaceToDepth(Node& node) {
  int64_t b = node.Int("blocksize", 0);
  asyra::Shape s = node.In(0).shape();
  if (s.size() != 4 || !IsBlock(b) || s[2] % b != 0 || s[3] % b != 0) {
    return Invalid("blocks of {} of an input of shape {}", b, ShapeToString(s));
  }
  Graph& graph = node.graph();
  ASYRA_ASSIGN_OR_RETURN(
      Value value,
      graph.Reshape(node.In(0), {s[0], s[1], s[2] / b, b, s[3] / b, b}));
  ASYRA_ASSIGN_OR_RETURN(value, graph.Transpose(value, {0, 3, 5, 1, 2, 4}));
  return node.Return(
      graph.Reshape(value, {s[0], b * b * s[1], s[2] / b, s[3] / b}));
}

}  // namespace asyra::onnx_import::ops
