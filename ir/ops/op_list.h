// The groups that make up the op set. To add an op, add its definition to a
// group; to add a group, list it here and in op_list.cc.
#pragma once

#include <vector>

#include "ir/op_def.h"

namespace asyra::ops {

std::vector<OpDef> ElementwiseOps();
std::vector<OpDef> FunctionOps();
std::vector<OpDef> ActivationOps();
std::vector<OpDef> MatmulOps();
std::vector<OpDef> ConvOps();
std::vector<OpDef> ReduceOps();
std::vector<OpDef> SoftmaxOps();
std::vector<OpDef> TopKOps();
std::vector<OpDef> NormOps();
std::vector<OpDef> ShapeOps();
std::vector<OpDef> IndexOps();
std::vector<OpDef> StripeOps();
std::vector<OpDef> PadOps();
std::vector<OpDef> GatherOps();
std::vector<OpDef> GatherNdOps();
std::vector<OpDef> ScatterOps();
std::vector<OpDef> AttentionOps();
std::vector<OpDef> AttentionMergeOps();
std::vector<OpDef> MaskLengthsOps();
std::vector<OpDef> RotaryOps();
std::vector<OpDef> EmbedOps();
std::vector<OpDef> MoeOps();
std::vector<OpDef> PackedRowsOps();
std::vector<OpDef> PackedMatmulOps();
std::vector<OpDef> RandomOps();
std::vector<OpDef> LossOps();
std::vector<OpDef> OptimOps();
std::vector<OpDef> CollectiveOps();
std::vector<OpDef> ScheduleOps();
std::vector<OpDef> FusionOps();
std::vector<OpDef> OverlapOps();

// Part of MoeOps.
OpDef RouterOp();
// Part of NormOps.
std::vector<OpDef> NormGradOps();
// Part of LossOps.
std::vector<OpDef> LossPartOps();

}  // namespace asyra::ops
