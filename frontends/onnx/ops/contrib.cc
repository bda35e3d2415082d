// Other ops of com.microsoft: what ONNX Runtime's optimizer fuses.
#include "frontends/onnx/ops/ops.h"

namespace asyra::onnx_import::ops {
namespace {

absl::StatusOr<Value> Activated(Node& node, const Value& x) {
  Graph& graph = node.graph();
  std::string name = node.String("activation", "");
  for (auto [spelling, op] :
       {std::pair("Relu", "relu"), std::pair("Tanh", "tanh"),
        std::pair("Sigmoid", "sigmoid")}) {
    if (name == spelling) return graph.Elementwise(op, {x});
  }
  if (name.empty()) return x;
  return Unimplemented("activation {} is not supported", name);
}

absl::StatusOr<Value> Rows(Node& node, int table, const Value& indices) {
  return node.graph().Add("embedding", {node.In(table), indices});
}

// The positions of tokens [B, S], if the model does not say: [1, S].
absl::StatusOr<Value> PositionRows(Node& node, int64_t length) {
  if (node.Has(8)) return Rows(node, 3, node.In(8));
  if (node.rank(3) != 2) {
    return Invalid("position_embedding has rank {}, it should be 2",
                   node.rank(3));
  }
  if (node.type(3).size(0) < length) {
    return Invalid("position_embedding has {} rows for {} tokens",
                   node.type(3).size(0), length);
  }
  return node.graph().Slice(node.In(3), 0, 0, length);
}

}  // namespace

// x sigmoid(alpha x)
absl::Status QuickGelu(Node& node) {
  Graph& graph = node.graph();
  const Value& x = node.In(0);
  double slope = node.Float("alpha", 1.702);
  if (static_cast<float>(slope) == 1.702f) {
    return node.Return(graph.Elementwise("quick_gelu", {x}));
  }
  Value alpha = graph.Scalar(slope, x.dtype());
  ASYRA_ASSIGN_OR_RETURN(Value gate, graph.Elementwise("mul", {x, alpha}));
  ASYRA_ASSIGN_OR_RETURN(gate, graph.Elementwise("sigmoid", {gate}));
  return node.Return(graph.Elementwise("mul", {x, gate}));
}

// alpha op(A) op(B), where op may exchange the last two dimensions, or move
// the first one behind all but the last before that.
absl::Status FusedMatMul(Node& node) {
  Graph& graph = node.graph();
  Value sides[] = {node.In(0), node.In(1)};
  bool transpose[] = {node.Int("transA", 0) != 0, node.Int("transB", 0) != 0};
  const char* batch_attrs[] = {"transBatchA", "transBatchB"};
  for (int i : {0, 1}) {
    int rank = sides[i].rank();
    bool batch = node.Int(batch_attrs[i], 0) != 0;
    if (rank < 2) {
      return Unimplemented("input {} has rank {}, it should be 2 or more", i,
                           rank);
    }
    if (!batch || rank < 3) continue;
    Ints perm;
    for (int d = 1; d < rank - 1; ++d) perm.push_back(d);
    perm.push_back(0);
    perm.push_back(rank - 1);
    ASYRA_ASSIGN_OR_RETURN(sides[i], graph.Transpose(sides[i], perm));
  }
  ASYRA_ASSIGN_OR_RETURN(Value matmul,
                         graph.Add("matmul", {sides[0], sides[1]},
                                   {{"transpose_a", transpose[0]},
                                    {"transpose_b", transpose[1]}}));
  double alpha = node.Float("alpha", 1);
  if (alpha == 1) return node.Return(matmul);
  return node.Return(
      graph.Elementwise("mul", {matmul, graph.Scalar(alpha, matmul.dtype())}));
}

absl::Status FusedGemm(Node& node) {
  for (const char* name :
       {"activation_alpha", "activation_beta", "activation_gamma"}) {
    node.Ignore(name);  // the activations that are known have none
  }
  ASYRA_RETURN_IF_ERROR(Gemm(node));
  return node.Return(Activated(node, *node.output(0)));
}

// Tokens, positions and segments looked up, summed and normalized.
absl::Status EmbedLayerNormalization(Node& node) {
  Graph& graph = node.graph();
  ASYRA_RETURN_IF_ERROR(node.Require({2, 3, 5, 6}));
  if (node.rank() != 2) {
    return Invalid("input_ids has rank {}, it should be 2", node.rank());
  }
  node.Ignore("mask_index_type");
  ASYRA_ASSIGN_OR_RETURN(Value sum, Rows(node, 2, node.In(0)));
  ASYRA_ASSIGN_OR_RETURN(Value positions,
                         PositionRows(node, node.type().size(1)));
  ASYRA_ASSIGN_OR_RETURN(sum, graph.Elementwise("add", {sum, positions}));
  if (node.Has(1) && node.Has(4)) {
    ASYRA_ASSIGN_OR_RETURN(Value segments, Rows(node, 4, node.In(1)));
    ASYRA_ASSIGN_OR_RETURN(sum, graph.Elementwise("add", {sum, segments}));
  }
  ASYRA_RETURN_IF_ERROR(node.SetOutput(2, sum));
  if (node.WantsOutput(1)) {
    // The count of tokens of each sequence; 0 without a mask, as ONNX Runtime
    // leaves it.
    absl::StatusOr<Value> count =
        graph.Broadcast(graph.Scalar(0, DType::kI32), {node.type().size(0)});
    if (node.Has(7)) {
      count = graph.Add("reduce_sum", {node.In(7)},
                        {{"dims", Ints{1}}, {"keep", false}});
    }
    ASYRA_RETURN_IF_ERROR(node.SetOutput(1, std::move(count)));
  }
  return node.Return(graph.Add("layer_norm", {sum, node.In(5), node.In(6)},
                               {{"eps", node.Float("epsilon", 1e-12)}}));
}

}  // namespace asyra::onnx_import::ops
