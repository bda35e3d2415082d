// Ops with the collectives between them as one op, whose pieces hide the
// communication of the others. What it computes follows from its body.
#include "ir/overlap.h"

#include "ir/ops/op_list.h"
#include "ir/plans/fused_reduction.h"
#include "ir/plans/overlap_shape.h"
#include "ir/plans/plan_text.h"
#include "ir/support/status.h"

namespace asyra::ops {
namespace {

using Types = std::vector<Type>;

const Body& BodyIn(const AttrMap& attrs) { return *attrs.Get<BodyRef>("body"); }

Types Given(const Body& body, const Types& types) {
  Types given;
  for (int value : body.results) given.push_back(types[value]);
  return given;
}

absl::StatusOr<Types> Infer(const OpCall& call) {
  const Body& body = BodyIn(call.attrs);
  ASYRA_ASSIGN_OR_RETURN(Types types, OverlapShapes(body, call.operands));
  // A body that binds one dimension in two ways is none.
  ASYRA_RETURN_IF_ERROR(BodyAxisRule(body, types).status());
  return Given(body, types);
}

absl::StatusOr<Types> OverMesh(const OpCall& call, const Mesh& mesh) {
  const Body& body = BodyIn(call.attrs);
  ASYRA_ASSIGN_OR_RETURN(Types types, OverlapTypes(body, call.operands, mesh));
  ASYRA_RETURN_IF_ERROR(CheckPlanOf(call.attrs, call.operands, mesh));
  return Given(body, types);
}

absl::StatusOr<AxisRule> Axes(const OpCall& call) {
  const Body& body = BodyIn(call.attrs);
  ASYRA_ASSIGN_OR_RETURN(Types types, OverlapShapes(body, call.operands));
  return BodyAxisRule(body, types);
}

// In one kernel, intermediate values stay in registers. The summands of all
// members are read.
Work FusedWork(const OpCall& call, const Mesh& mesh) {
  auto fused = FusedReductionOf(BodyIn(call.attrs), call.operands, mesh);
  if (!fused.ok()) return {};
  AttrMap attrs = {{"body", BodyRef(fused->rows)}};
  Work work =
      WorkOf({*FindOp("fusion"), attrs, fused->operands, fused->results}, mesh);
  work.read_bytes += static_cast<double>(fused->read_from_others);
  work.write_bytes += static_cast<double>(fused->written_to_others);
  return work;
}

// Counts what its ops compute, and what they and the collectives read and
// write.
Work WorkOver(const OpCall& call, const Mesh& mesh) {
  const Body& body = BodyIn(call.attrs);
  if (IsOneKernel(call.attrs) && mesh.num_devices() > 1) {
    return FusedWork(call, mesh);
  }
  // On one device there is nothing to communicate.
  bool alone = mesh.num_devices() == 1;
  auto types = alone ? OverlapShapes(body, call.operands)
                     : OverlapTypes(body, call.operands, mesh);
  if (!types.ok()) return {};
  Work work;
  for (size_t i = 0; i < body.ops.size(); ++i) {
    bool moves = body.ops[i].def->collective != CollectiveKind::kNone;
    if (moves && alone) continue;
    Work part = WorkOf(BodyCall(body, i, *types).call(), mesh);
    if (!moves) work.flops += part.flops;
    work.read_bytes += part.read_bytes;
    work.write_bytes += part.write_bytes;
    work.vector_flops += part.vector_flops;
    work.matrix |= part.matrix;
  }
  if (alone) return work;
  auto plan = UnprovenPlanOf(call.attrs, call.operands, mesh);
  if (plan.ok()) {
    work.scratch_bytes = static_cast<double>(plan->workspace_bytes);
  }
  return work;
}

// A kernel reads a row before it writes there, and other members read nothing
// but the summands. They write gathered results at any time.
bool ResultInPlace(const OpCall& call, int operand, int result) {
  if (!IsOneKernel(call.attrs)) return false;
  const Body& body = BodyIn(call.attrs);
  const BodyOp& last = body.ops[body.results[result] - body.num_operands];
  return operand != body.ops[0].operands[0] &&
         last.def->collective == CollectiveKind::kNone;
}

absl::StatusOr<PlanRef> ParsePlanOf(const Body& body,
                                    absl::Span<const Type> operands,
                                    const Mesh& mesh, Lexer* lexer) {
  absl::StatusOr<GroupBody> group = GroupBodyOf(body, operands, mesh);
  if (!group.ok()) return lexer->Error(MessageOf(group.status()));
  return ParsePlan(*group, lexer);
}

// Shapes that ops repeat, where the op has these results.
void Resize(AttrMap* attrs, absl::Span<const Type> results) {
  Body body = BodyIn(*attrs);
  size_t count = std::min(results.size(), body.results.size());
  for (size_t r = 0; r < count; ++r) {
    BodyOp& op = body.ops[body.results[r] - body.num_operands];
    if (op.def->resize != nullptr) op.def->resize(&op.attrs, {&results[r], 1});
  }
  attrs->Set("body", BodyRef(std::move(body)));
}

}  // namespace

std::vector<OpDef> OverlapOps() {
  std::vector<AttrDef> attrs = {{"body", AttrKind::kBody, "what it computes"}};
  for (AttrDef& attr : PlanShapeAttrs()) attrs.push_back(std::move(attr));
  return {
      {.name = "overlap",
       .summary = "the ops and collectives of `body`, in pieces that hide each "
                  "other's communication",
       .operands = {{"operands", OperandDef::kVariadic}},
       .attrs = std::move(attrs),
       .infer = Infer,
       .axes = Axes,
       .distribute = OverMesh,
       .resize = Resize,
       .work_over = WorkOver,
       .samples =
           {{"overlap(f32[8@a,6], f32[6,8@a]) {"
             "%2 = all_gather(%0) {dim=0, axes=a} : f32[8,6] "
             "%3 = matmul(%2, %1) : f32[8,8@a] "
             "return %3}",
             -3, 3, "(a=2, b=2)"},
            {"overlap(f32[8@a,6], f32[6,8@a]) {"
             "%2 = all_gather(%0) {dim=0, axes=a} : f32[8,6] "
             "%3 = matmul(%2, %1) : f32[8,8@a] "
             "return %3} plan {queues compute, copy 0 rank r: "
             "on compute: post ready to copy 0 of r+1; "
             "piece %3[#r, #r] from %0, %1; "
             "await came from copy 0 of r+1; piece %3[#r+1, #r] "
             "on copy 0: await ready from compute of r+1; "
             "put %0[#r, :] to %2 of r+1; post came to compute of r+1}",
             -3, 3, "(a=2, b=2)"},
            {"overlap(f32[8@(b,a),6], f32[6,8@a], f32[6,4]) {"
             "%3 = all_gather(%0) {dim=0, axes=a} : f32[8@b,6] "
             "%4 = matmul(%3, %1) : f32[8@b,8@a] "
             "%5 = matmul(%3, %2) : f32[8@b,4] "
             "return %4, %5, %3} {parts=2, groups=[2, 2], route=ring}",
             -3, 3, "(a=2, b=2)"},
            {"overlap(f32[2,8,6@a], f32[6@a,8]) {"
             "%2 = matmul(%0, %1) : f32[2,8,8] partial(a) "
             "%3 = reduce_scatter(%2) {dim=1, axes=a} : f32[2,8@a,8] "
             "return %3} {order=own_last, parts=2}",
             -3, 3, "(a=2, b=2)"},
            {"overlap(f32[8,4@(a,b)], f32[4@(a,b),4]) {"
             "%2 = matmul(%0, %1) : f32[8,4] partial(a,b) "
             "%3 = all_reduce(%2) {axes=(a,b)} : f32[8,4] "
             "return %3} {order=own_last, route=two_levels, inner=2}",
             -3, 3, "(a=2, b=2)"},
            {"overlap(f32[2,4@a,4,2], f32[2,4@a,2,2], f32[2,4@a,2,2]) {"
             "%3 = all_to_all(%0) {from=1, to=2, axes=a} : f32[2,4,4@a,2] "
             "%4 = all_to_all(%1) {from=1, to=2, axes=a} : f32[2,4,2@a,2] "
             "%5 = all_to_all(%2) {from=1, to=2, axes=a} : f32[2,4,2@a,2] "
             "%6 = attention(%3, %4, %5) {scale=0.5, causal=true} : "
             "f32[2,4,4@a,2] "
             "%7 = all_to_all(%6) {from=2, to=1, axes=a} : f32[2,4@a,4,2] "
             "return %7} {order=same, route=pull}",
             -3, 3, "(a=2, b=2)"}},
       .in_place = true,
       .result_in_place = ResultInPlace,
       .body_communicates = true,
       .plan_form = {.parse = ParsePlanOf, .print = PlanLines}},
  };
}

}  // namespace asyra::ops
