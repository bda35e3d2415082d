#include "frontends/onnx/op_table.h"

#include "absl/container/flat_hash_map.h"
#include "frontends/onnx/ops/ops.h"
#include "onnx/onnx.pb.h"

namespace asyra::onnx_import {
namespace {

using namespace ops;  // NOLINT: this table is what they are for

constexpr std::string_view kMicrosoft = "com.microsoft";

// Sorted by name within a domain. Versions below 13 are not kept apart:
// `since` 13 stands for "13 and what it kept".
constexpr OpSpelling kSpellings[] = {
    {"", "Abs", 13, 1, 1, Elementwise, "abs"},
    {"", "Acos", 13, 1, 1, Elementwise, "acos"},
    {"", "Acosh", 13, 1, 1, Elementwise, "acosh"},
    {"", "Add", 13, 2, 2, Elementwise, "add"},
    {"", "And", 13, 2, 2, And},
    {"", "ArgMax", 13, 1, 1, Arg, "arg_max"},
    {"", "ArgMin", 13, 1, 1, Arg, "arg_min"},
    {"", "Asin", 13, 1, 1, Elementwise, "asin"},
    {"", "Asinh", 13, 1, 1, Elementwise, "asinh"},
    {"", "Atan", 13, 1, 1, Elementwise, "atan"},
    {"", "Atanh", 13, 1, 1, Elementwise, "atanh"},
    {"", "Attention", 23, 3, 7, Attention},
    {"", "AveragePool", 13, 1, 1, AveragePool},
    {"", "BatchNormalization", 13, 5, 5, BatchNormalization},
    {"", "Cast", 13, 1, 1, Cast},
    {"", "CastLike", 15, 2, 2, CastLike},
    {"", "Ceil", 13, 1, 1, Elementwise, "ceil"},
    {"", "Celu", 13, 1, 1, Celu},
    {"", "Clip", 13, 1, 3, Clip},
    {"", "Concat", 13, 1, OpSpelling::kAny, Concat},
    {"", "ConcatFromSequence", 13, 1, 1, ConcatFromSequence, "",
     Takes::kSequences},
    {"", "Constant", 13, 0, 0, Constant},
    {"", "ConstantOfShape", 13, 1, 1, ConstantOfShape},
    {"", "Conv", 13, 2, 3, Conv},
    {"", "ConvTranspose", 13, 2, 3, ConvTranspose},
    {"", "Cos", 13, 1, 1, Elementwise, "cos"},
    {"", "Cosh", 13, 1, 1, Elementwise, "cosh"},
    {"", "CumSum", 13, 2, 2, CumSum},
    {"", "DepthToSpace", 13, 1, 1, DepthToSpace},
    {"", "Div", 13, 2, 2, Elementwise, "div"},
    {"", "Dropout", 13, 1, 3, Dropout},
    {"", "Einsum", 13, 1, OpSpelling::kAny, Einsum},
    {"", "Elu", 13, 1, 1, Elu},
    {"", "Equal", 13, 2, 2, Elementwise, "equal"},
    {"", "Erf", 13, 1, 1, Elementwise, "erf"},
    {"", "Exp", 13, 1, 1, Elementwise, "exp"},
    {"", "Expand", 13, 2, 2, Expand},
    {"", "EyeLike", 13, 1, 1, EyeLike},
    {"", "Flatten", 13, 1, 1, Flatten},
    {"", "Floor", 13, 1, 1, Elementwise, "floor"},
    {"", "Gather", 13, 2, 2, Gather},
    {"", "GatherElements", 13, 2, 2, GatherElements},
    {"", "GatherND", 13, 2, 2, GatherND},
    {"", "Gelu", 20, 1, 1, Gelu},
    {"", "Gemm", 13, 2, 3, Gemm},
    {"", "GlobalAveragePool", 13, 1, 1, GlobalAveragePool},
    {"", "Greater", 13, 2, 2, Greater, "less"},
    {"", "GreaterOrEqual", 13, 2, 2, Greater, "less_equal"},
    {"", "GroupNormalization", 18, 3, 3, GroupNormalization},
    {"", "HardSigmoid", 13, 1, 1, HardSigmoid},
    {"", "HardSwish", 14, 1, 1, Elementwise, "hard_swish"},
    {"", "Identity", 13, 1, 1, Identity, "", Takes::kSequences},
    {"", "If", 13, 1, 1, If},
    {"", "InstanceNormalization", 13, 3, 3, InstanceNormalization},
    {"", "IsInf", 13, 1, 1, IsInf},
    {"", "IsNaN", 13, 1, 1, Elementwise, "is_nan"},
    // Part of opset 17; ONNX Runtime's optimizer writes it into older ones.
    {"", "LayerNormalization", 13, 2, 3, LayerNormalization},
    {"", "LeakyRelu", 13, 1, 1, LeakyRelu},
    {"", "Less", 13, 2, 2, Elementwise, "less"},
    {"", "LessOrEqual", 13, 2, 2, Elementwise, "less_equal"},
    {"", "Log", 13, 1, 1, Elementwise, "log"},
    {"", "LogSoftmax", 13, 1, 1, Softmax, "log_softmax"},
    {"", "Loop", 13, 0, OpSpelling::kAnyOptional, Loop, "", Takes::kSequences},
    {"", "MatMul", 13, 2, 2, MatMul},
    {"", "Max", 13, 1, OpSpelling::kAny, ElementwiseFold, "max"},
    {"", "MaxPool", 13, 1, 1, MaxPool},
    {"", "Mean", 13, 1, OpSpelling::kAny, Mean},
    {"", "Min", 13, 1, OpSpelling::kAny, ElementwiseFold, "min"},
    {"", "Mish", 18, 1, 1, Elementwise, "mish"},
    {"", "Mod", 13, 2, 2, Mod},
    {"", "Mul", 13, 2, 2, Elementwise, "mul"},
    {"", "Neg", 13, 1, 1, Elementwise, "neg"},
    {"", "NegativeLogLikelihoodLoss", 13, 2, 3, NegativeLogLikelihoodLoss},
    {"", "NonZero", 13, 1, 1, NonZero},
    {"", "Not", 13, 1, 1, Elementwise, "not"},
    {"", "OneHot", 13, 3, 3, OneHot},
    {"", "Or", 13, 2, 2, Elementwise, "or"},
    {"", "PRelu", 13, 2, 2, PRelu},
    {"", "Pad", 13, 2, 4, Pad},
    {"", "Pow", 13, 2, 2, Pow},
    {"", "RMSNormalization", 23, 2, 2, RmsNormalization},
    {"", "Range", 13, 3, 3, Range},
    {"", "Reciprocal", 13, 1, 1, Elementwise, "reciprocal"},
    {"", "ReduceL1", 13, 1, 1, ReduceAttr, "l1"},
    {"", "ReduceL1", 18, 1, 2, ReduceInput, "l1"},
    {"", "ReduceL2", 13, 1, 1, ReduceAttr, "l2"},
    {"", "ReduceL2", 18, 1, 2, ReduceInput, "l2"},
    {"", "ReduceLogSum", 13, 1, 1, ReduceAttr, "log"},
    {"", "ReduceLogSum", 18, 1, 2, ReduceInput, "log"},
    {"", "ReduceLogSumExp", 13, 1, 1, ReduceAttr, "log_sum_exp"},
    {"", "ReduceLogSumExp", 18, 1, 2, ReduceInput, "log_sum_exp"},
    {"", "ReduceMax", 13, 1, 1, ReduceAttr, "reduce_max"},
    {"", "ReduceMax", 18, 1, 2, ReduceInput, "reduce_max"},
    {"", "ReduceMean", 13, 1, 1, ReduceAttr, "reduce_mean"},
    {"", "ReduceMean", 18, 1, 2, ReduceInput, "reduce_mean"},
    {"", "ReduceMin", 13, 1, 1, ReduceAttr, "reduce_min"},
    {"", "ReduceMin", 18, 1, 2, ReduceInput, "reduce_min"},
    {"", "ReduceProd", 13, 1, 1, ReduceAttr, "reduce_prod"},
    {"", "ReduceProd", 18, 1, 2, ReduceInput, "reduce_prod"},
    {"", "ReduceSum", 13, 1, 2, ReduceInput, "reduce_sum"},
    {"", "ReduceSumSquare", 13, 1, 1, ReduceAttr, "square"},
    {"", "ReduceSumSquare", 18, 1, 2, ReduceInput, "square"},
    {"", "Relu", 13, 1, 1, Elementwise, "relu"},
    {"", "Reshape", 13, 2, 2, Reshape},
    {"", "Resize", 13, 1, 4, Resize},
    {"", "RotaryEmbedding", 23, 3, 4, RotaryEmbedding},
    {"", "Round", 13, 1, 1, Elementwise, "round"},
    {"", "Scan", 13, 1, OpSpelling::kAny, Scan},
    {"", "ScatterElements", 13, 3, 3, ScatterElements},
    {"", "ScatterND", 13, 3, 3, ScatterND},
    {"", "Selu", 13, 1, 1, Selu},
    {"", "SequenceAt", 13, 2, 2, SequenceAt, "", Takes::kSequences},
    {"", "SequenceConstruct", 13, 1, OpSpelling::kAny, SequenceConstruct},
    {"", "SequenceEmpty", 13, 0, 0, SequenceEmpty},
    {"", "SequenceErase", 13, 1, 2, SequenceErase, "", Takes::kSequences},
    {"", "SequenceInsert", 13, 2, 3, SequenceInsert, "", Takes::kSequences},
    {"", "SequenceLength", 13, 1, 1, SequenceLength, "", Takes::kSequences},
    {"", "Shape", 13, 1, 1, Shape},
    {"", "Sigmoid", 13, 1, 1, Elementwise, "sigmoid"},
    {"", "Sign", 13, 1, 1, Elementwise, "sign"},
    // ONNX Runtime's optimizer writes this into ai.onnx for an RMS norm.
    {"", "SimplifiedLayerNormalization", 13, 2, 2, RmsNormalization},
    {"", "Sin", 13, 1, 1, Elementwise, "sin"},
    {"", "Sinh", 13, 1, 1, Elementwise, "sinh"},
    {"", "Size", 13, 1, 1, Size},
    {"", "Slice", 13, 3, 5, Slice},
    {"", "Softmax", 13, 1, 1, Softmax, "softmax"},
    {"", "SoftmaxCrossEntropyLoss", 13, 2, 3, SoftmaxCrossEntropyLoss},
    {"", "Softplus", 13, 1, 1, Elementwise, "softplus"},
    {"", "Softsign", 13, 1, 1, Softsign},
    {"", "SpaceToDepth", 13, 1, 1, SpaceToDepth},
    {"", "Split", 13, 1, 2, Split},
    {"", "SplitToSequence", 13, 1, 2, SplitToSequence},
    {"", "Sqrt", 13, 1, 1, Elementwise, "sqrt"},
    {"", "Squeeze", 13, 1, 2, Squeeze},
    {"", "Sub", 13, 2, 2, Elementwise, "sub"},
    {"", "Sum", 13, 1, OpSpelling::kAny, ElementwiseFold, "add"},
    {"", "Swish", 24, 1, 1, Swish},
    {"", "Tan", 13, 1, 1, Elementwise, "tan"},
    {"", "Tanh", 13, 1, 1, Elementwise, "tanh"},
    {"", "TensorScatter", 24, 2, 3, TensorScatter},
    {"", "ThresholdedRelu", 13, 1, 1, ThresholdedRelu},
    {"", "Tile", 13, 2, 2, Tile},
    {"", "TopK", 13, 2, 2, TopK},
    {"", "Transpose", 13, 1, 1, Transpose},
    {"", "Trilu", 14, 1, 2, Trilu},
    {"", "Unsqueeze", 13, 2, 2, Unsqueeze},
    {"", "Where", 13, 3, 3, Elementwise, "select"},
    {"", "Xor", 13, 2, 2, Xor},
    {kMicrosoft, "Attention", 1, 2, 6, ContribAttention},
    {kMicrosoft, "BiasGelu", 1, 2, 2, Gelu},
    {kMicrosoft, "EmbedLayerNormalization", 1, 1, 9, EmbedLayerNormalization},
    {kMicrosoft, "FastGelu", 1, 1, 2, Gelu, "gelu_tanh"},
    {kMicrosoft, "FusedGemm", 1, 2, 3, FusedGemm},
    {kMicrosoft, "FusedMatMul", 1, 2, 2, FusedMatMul},
    {kMicrosoft, "Gelu", 1, 1, 1, Gelu},
    {kMicrosoft, "GroupQueryAttention", 1, 1, 16, GroupQueryAttention},
    {kMicrosoft, "MoE", 1, 1, 8, MoE},
    {kMicrosoft, "MultiHeadAttention", 1, 1, 10, MultiHeadAttention},
    {kMicrosoft, "QuickGelu", 1, 1, 1, QuickGelu},
    {kMicrosoft, "RotaryEmbedding", 1, 4, 4, ContribRotaryEmbedding},
    {kMicrosoft, "SimplifiedLayerNormalization", 1, 2, 2, RmsNormalization},
    {kMicrosoft, "SkipLayerNormalization", 1, 3, 5, SkipLayerNormalization,
     "layer_norm"},
    {kMicrosoft, "SkipSimplifiedLayerNormalization", 1, 3, 4,
     SkipLayerNormalization, "rms_norm"},
};

}  // namespace

absl::Span<const OpSpelling> Spellings() { return kSpellings; }

const OpSpelling* FindSpelling(std::string_view domain, std::string_view name,
                               int opset) {
  static const auto* by_name = [] {
    auto* map =
        new absl::flat_hash_map<std::string, std::vector<const OpSpelling*>>;
    for (const OpSpelling& spelling : kSpellings) {
      (*map)[fmt::format("{}:{}", spelling.domain, spelling.name)].push_back(
          &spelling);
    }
    return map;
  }();
  auto found = by_name->find(fmt::format("{}:{}", domain, name));
  if (found == by_name->end()) return nullptr;
  const OpSpelling* best = nullptr;
  for (const OpSpelling* spelling : found->second) {
    if (spelling->since <= opset) best = spelling;  // ascending in the table
  }
  return best;
}

const OpSpelling* FindSpelling(const onnx::NodeProto& node,
                               const Opsets& opsets) {
  std::string domain = CanonicalDomain(node.domain());
  auto opset = opsets.find(domain);
  if (opset == opsets.end()) return nullptr;
  return FindSpelling(domain, node.op_type(), opset->second);
}

}  // namespace asyra::onnx_import
