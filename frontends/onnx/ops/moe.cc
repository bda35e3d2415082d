// Mixture of experts of com.microsoft.
#include "frontends/onnx/ops/ops.h"

namespace asyra::onnx_import::ops {
namespace {

enum MoeInput {
  kTokens,
  kLogits,
  kUp,
  kUpBias,
  kDown,
  kDownBias,
  kGate,
  kGateBias,
};

class Moe {
 public:
  explicit Moe(Node& node) : node_(node), graph_(node.graph()) {}

  absl::Status Run() {
    ASYRA_RETURN_IF_ERROR(node_.Require({kTokens, kLogits, kUp, kDown}));
    ASYRA_RETURN_IF_ERROR(ReadSizes());
    // Router: tokens keep their leading dimensions.
    asyra::Shape shape = node_.In(kTokens).shape();
    shape.back() = num_experts_;
    ASYRA_ASSIGN_OR_RETURN(Value logits,
                           graph_.Reshape(node_.In(kLogits), shape));
    bool normalize = node_.Int("normalize_routing_weights", 0) != 0;
    ASYRA_ASSIGN_OR_RETURN(
        std::vector<Value> chosen,
        graph_.AddMany("moe_router", {logits},
                       {{"k", chosen_}, {"normalize", normalize}}));
    const Value &weights = chosen[0], &experts = chosen[1];
    // Each token is a group of its own, and so finds a slot with every expert.
    ASYRA_ASSIGN_OR_RETURN(
        Value rows, graph_.Add("moe_dispatch", {node_.In(kTokens), experts},
                               {{"num_experts", num_experts_}}));
    ASYRA_ASSIGN_OR_RETURN(rows, Hidden(rows));
    ASYRA_ASSIGN_OR_RETURN(rows, Project(rows, kDown, kDownBias));
    return node_.Return(graph_.Add("moe_combine", {rows, experts, weights}));
  }

 private:
  absl::Status ReadSizes() {
    if (node_.Int("use_sparse_mixer", 0) != 0) {
      return Unimplemented("use_sparse_mixer is not supported");
    }
    for (int input : {kUp, kDown}) {
      if (node_.rank(input) != 3) {
        return Invalid("input {}, the experts' weights, has rank {}", input,
                       node_.rank(input));
      }
    }
    if (node_.rank() < 2) return Invalid("input 0 has rank {}", node_.rank());
    num_experts_ = node_.type(kUp).size(0);
    chosen_ = node_.Int("k", 1);
    return absl::OkStatus();
  }

  // rows * weights^T + bias, of each expert.
  absl::StatusOr<Value> Project(const Value& rows, int weights, int bias) {
    // Most slots are free.
    double occupancy =
        static_cast<double>(chosen_) / static_cast<double>(num_experts_);
    ASYRA_ASSIGN_OR_RETURN(
        Value result,
        graph_.Add("grouped_matmul", {rows, node_.In(weights)},
                   {{"transpose_b", true}, {"occupancy", occupancy}}));
    if (!node_.Has(bias)) return result;
    const Type& type = node_.type(bias);
    if (type.rank() != 2) return Invalid("a bias has rank {}", type.rank());
    ASYRA_ASSIGN_OR_RETURN(
        Value rows_of_bias,
        graph_.Reshape(node_.In(bias), {type.size(0), 1, type.size(1)}));
    return graph_.Elementwise("add", {result, rows_of_bias});
  }

  // The input of the down projection.
  absl::StatusOr<Value> Hidden(const Value& rows) {
    ASYRA_ASSIGN_OR_RETURN(Value up, Project(rows, kUp, kUpBias));
    std::string activation = node_.String("activation_type", "relu");
    int64_t fusion = node_.Int("swiglu_fusion", 0);
    if (activation == "swiglu") return SwiGlu(rows, up, fusion);
    for (const char* name :
         {"activation_alpha", "activation_beta", "swiglu_limit"}) {
      node_.Ignore(name);  // of SwiGLU
    }
    // ONNX Runtime's kernels take the approximation of gelu.
    static constexpr std::pair<std::string_view, std::string_view>
        kFunctions[] = {
            {"relu", "relu"}, {"gelu", "gelu_tanh"}, {"silu", "silu"}};
    const auto* function = std::find_if(
        std::begin(kFunctions), std::end(kFunctions),
        [&](const auto& pair) { return pair.first == activation; });
    if (function != std::end(kFunctions)) {
      ASYRA_ASSIGN_OR_RETURN(up, graph_.Elementwise(function->second, {up}));
    } else if (activation != "identity") {
      return Unimplemented("activation_type {} is not supported", activation);
    }
    if (!node_.Has(kGate)) return up;
    ASYRA_ASSIGN_OR_RETURN(Value gate, Project(rows, kGate, kGateBias));
    return graph_.Elementwise("mul", {up, gate});
  }

  // g sigmoid(alpha g) (l + beta), g and l limited. They are two inputs, or
  // are in one, by turns (fusion 1) or one after the other (2).
  absl::StatusOr<Value> SwiGlu(const Value& rows, const Value& up,
                               int64_t fusion) {
    Value g = up, l = up;
    int last = up.rank() - 1;
    int64_t width = up.type().size(last);
    if (fusion == 0) {
      if (!node_.Has(kGate)) return Invalid("swiglu without input 6");
      ASYRA_ASSIGN_OR_RETURN(l, Project(rows, kGate, kGateBias));
    } else if (fusion == 1) {
      ASYRA_ASSIGN_OR_RETURN(g, graph_.Slice(up, last, 0, width, 2));
      ASYRA_ASSIGN_OR_RETURN(l, graph_.Slice(up, last, 1, width, 2));
    } else {
      ASYRA_ASSIGN_OR_RETURN(g, graph_.Slice(up, last, 0, width / 2));
      ASYRA_ASSIGN_OR_RETURN(l, graph_.Slice(up, last, width / 2, width));
    }
    if (node_.HasAttr("swiglu_limit")) {
      double limit = node_.Float("swiglu_limit", 0);
      ASYRA_ASSIGN_OR_RETURN(g, With("min", g, limit));
      ASYRA_ASSIGN_OR_RETURN(l, With("min", l, limit));
      ASYRA_ASSIGN_OR_RETURN(l, With("max", l, -limit));
    }
    double alpha = node_.Float("activation_alpha", 1);
    double beta = node_.Float("activation_beta", 0);
    Value gate = g;
    if (alpha == 1) {
      ASYRA_ASSIGN_OR_RETURN(gate, graph_.Elementwise("silu", {g}));
    } else {
      ASYRA_ASSIGN_OR_RETURN(gate, With("mul", g, alpha));
      ASYRA_ASSIGN_OR_RETURN(gate, graph_.Elementwise("sigmoid", {gate}));
      ASYRA_ASSIGN_OR_RETURN(gate, graph_.Elementwise("mul", {g, gate}));
    }
    if (beta != 0) {
      ASYRA_ASSIGN_OR_RETURN(l, With("add", l, beta));
    }
    return graph_.Elementwise("mul", {gate, l});
  }

  absl::StatusOr<Value> With(std::string_view op, const Value& value,
                             double number) {
    return graph_.Elementwise(op,
                              {value, graph_.Scalar(number, value.dtype())});
  }

  Node& node_;
  Graph& graph_;
  int64_t num_experts_ = 0;
  int64_t chosen_ = 0;  // experts of each token
};

}  // namespace

absl::Status MoE(Node& node) { return Moe(node).Run(); }

}  // namespace asyra::onnx_import::ops
