// The op functions that op_table.cc names, by file. Each reads a node's inputs
// and attributes and sets its outputs; the table has checked that the inputs
// it requires are there.
#pragma once

#include "frontends/onnx/node.h"

namespace asyra::onnx_import::ops {

// elementwise.cc
absl::Status Elementwise(Node& node);      // the IR op of the table
absl::Status ElementwiseFold(Node& node);  // of any number of inputs
absl::Status And(Node& node);
absl::Status Pow(Node& node);
absl::Status Greater(Node& node);  // the IR op with operands swapped
absl::Status Xor(Node& node);
absl::Status Mean(Node& node);
absl::Status Cast(Node& node);
absl::Status CastLike(Node& node);
absl::Status Clip(Node& node);
absl::Status Gelu(Node& node);
absl::Status Swish(Node& node);
absl::Status Identity(Node& node);
absl::Status Dropout(Node& node);

// activation.cc
absl::Status Elu(Node& node);
absl::Status LeakyRelu(Node& node);
absl::Status PRelu(Node& node);
absl::Status Selu(Node& node);
absl::Status Celu(Node& node);
absl::Status ThresholdedRelu(Node& node);
absl::Status HardSigmoid(Node& node);
absl::Status Softsign(Node& node);
absl::Status Mod(Node& node);
absl::Status IsInf(Node& node);

// constant.cc
absl::Status Constant(Node& node);
absl::Status ConstantOfShape(Node& node);
absl::Status Range(Node& node);
absl::Status Shape(Node& node);
absl::Status Size(Node& node);
absl::Status Trilu(Node& node);
absl::Status EyeLike(Node& node);
absl::Status NonZero(Node& node);

// shape.cc
absl::Status Concat(Node& node);
absl::Status Expand(Node& node);
absl::Status Flatten(Node& node);
absl::Status Reshape(Node& node);
absl::Status Slice(Node& node);
absl::Status Split(Node& node);
absl::Status Squeeze(Node& node);
absl::Status Unsqueeze(Node& node);
absl::Status Transpose(Node& node);

// sequence.cc
absl::Status SplitToSequence(Node& node);
absl::Status SequenceAt(Node& node);
absl::Status SequenceConstruct(Node& node);
absl::Status SequenceEmpty(Node& node);
absl::Status SequenceErase(Node& node);
absl::Status SequenceInsert(Node& node);
absl::Status SequenceLength(Node& node);
absl::Status ConcatFromSequence(Node& node);

// control.cc
absl::Status If(Node& node);    // the branch that is taken
absl::Status Loop(Node& node);  // every iteration
absl::Status Scan(Node& node);

// layout.cc
absl::Status Tile(Node& node);
absl::Status DepthToSpace(Node& node);
absl::Status SpaceToDepth(Node& node);

// einsum.cc, resize.cc
absl::Status Einsum(Node& node);
absl::Status Resize(Node& node);

// channel_norm.cc
absl::Status BatchNormalization(Node& node);
absl::Status GroupNormalization(Node& node);
absl::Status InstanceNormalization(Node& node);

// gather.cc
absl::Status Gather(Node& node);
absl::Status GatherElements(Node& node);
absl::Status GatherND(Node& node);

// conv.cc
absl::Status Conv(Node& node);
absl::Status ConvTranspose(Node& node);
absl::Status AveragePool(Node& node);
absl::Status GlobalAveragePool(Node& node);
absl::Status MaxPool(Node& node);

// loss.cc
absl::Status SoftmaxCrossEntropyLoss(Node& node);
absl::Status NegativeLogLikelihoodLoss(Node& node);

// pad.cc
absl::Status Pad(Node& node);

// scatter.cc
absl::Status ScatterElements(Node& node);
absl::Status ScatterND(Node& node);
absl::Status OneHot(Node& node);
absl::Status TopK(Node& node);
absl::Status Arg(Node& node);  // the IR op of the table

// reduce.cc
absl::Status ReduceAttr(Node& node);   // axes as attribute
absl::Status ReduceInput(Node& node);  // axes as input
absl::Status Softmax(Node& node);      // the IR op of the table
absl::Status CumSum(Node& node);

// matmul.cc
absl::Status Gemm(Node& node);
absl::Status MatMul(Node& node);

// norm.cc
absl::Status LayerNormalization(Node& node);
absl::Status RmsNormalization(Node& node);
absl::Status SkipLayerNormalization(Node& node);

// attention.cc
absl::Status Attention(Node& node);
absl::Status RotaryEmbedding(Node& node);

// tensor_scatter.cc
absl::Status TensorScatter(Node& node);

// contrib_attention.cc, group_query_attention.cc, moe.cc, contrib.cc
absl::Status ContribAttention(Node& node);
absl::Status MultiHeadAttention(Node& node);
absl::Status ContribRotaryEmbedding(Node& node);
absl::Status GroupQueryAttention(Node& node);
absl::Status MoE(Node& node);
absl::Status QuickGelu(Node& node);
absl::Status FusedMatMul(Node& node);
absl::Status FusedGemm(Node& node);
absl::Status EmbedLayerNormalization(Node& node);

// For the files above.

// Input 0 in parts of these sizes, which must fill dimension `dim`.
absl::StatusOr<std::vector<Value>> SplitAlong(Node& node, int dim,
                                              const Ints& sizes);
// Parts one after the other along `axis`, or along a new one. Error: there is
// none.
absl::StatusOr<Value> Joined(Node& node, std::vector<Value> parts, int64_t axis,
                             bool new_axis);
// The sum: a + b + ...
absl::StatusOr<Value> AddAll(Node& node, const std::vector<Value>& values);

}  // namespace asyra::onnx_import::ops
