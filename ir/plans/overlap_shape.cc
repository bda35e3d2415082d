#include "ir/plans/overlap_shape.h"

#include <algorithm>
#include <iterator>

#include "ir/copy_engine.h"
#include "ir/plans/fused_reduction.h"
#include "ir/plans/plan_exchanges.h"
#include "ir/plans/verify_plan.h"
#include "ir/support/check.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

constexpr std::string_view kOrders[] = {"own_first", "own_last", "same"};
constexpr std::string_view kRoutes[] = {"direct", "pull", "ring", "two_levels"};

template <typename Words>
int NumberOf(const AttrMap& attrs, std::string_view name, const Words& words) {
  const auto* at = std::find(std::begin(words), std::end(words),
                             attrs.Get<std::string>(name));
  ASYRA_CHECK(at != std::end(words));
  return static_cast<int>(at - std::begin(words));
}

AttrDef WordAttr(std::string_view name, std::string_view doc,
                 absl::Span<const std::string_view> words) {
  return {name,
          AttrKind::kString,
          doc,
          std::string(words[0]),
          {words.begin(), words.end()}};
}

}  // namespace

PlanShape PlanShapeOf(const AttrMap& attrs) {
  PlanShape shape;
  shape.order = static_cast<PlanOrder>(NumberOf(attrs, "order", kOrders));
  shape.route = static_cast<PlanRoute>(NumberOf(attrs, "route", kRoutes));
  shape.parts = attrs.Int("parts");
  shape.groups = attrs.Get<Ints>("groups");
  shape.inner = attrs.Int("inner");
  shape.sums_in_pieces = attrs.Bool("sums_in_pieces");
  shape.copy_queues = attrs.Int("copy_queues");
  shape.exchanges = !AsksForCopyEngine(attrs);
  return shape;
}

void SetPlanShape(const PlanShape& shape, AttrMap* attrs) {
  attrs->Set("order", std::string(kOrders[static_cast<int>(shape.order)]));
  attrs->Set("route", std::string(kRoutes[static_cast<int>(shape.route)]));
  attrs->Set("parts", shape.parts);
  attrs->Set("groups", Ints(shape.groups.begin(), shape.groups.end()));
  attrs->Set("inner", shape.inner);
  attrs->Set("sums_in_pieces", shape.sums_in_pieces);
  attrs->Set("copy_queues", shape.copy_queues);
  AskForCopyEngine(!shape.exchanges, attrs);
  attrs->Set("plan", PlanRef());
}

void SetPlan(PlanRef plan, AttrMap* attrs) {
  SetPlanShape({.exchanges = HasExchanges(*plan)}, attrs);
  attrs->Set("plan", std::move(plan));
}

bool ExchangesMessages(const OpDef& def, const AttrMap& attrs) {
  return IsOverlap(def) && !AsksForCopyEngine(attrs);
}

bool HasOwnPlan(const AttrMap& attrs) {
  return attrs.Get<PlanRef>("plan").get() != nullptr;
}

std::vector<AttrDef> PlanShapeAttrs() {
  constexpr std::string_view kForms[] = {"launches", kOneKernel};
  constexpr std::string_view kTransports[] = {kCopyEngine, kLibrary};
  return {
      WordAttr("order",
               "how each rank goes through the shards: its own first, its own "
               "last, or the same on all ranks",
               kOrders),
      {"parts", AttrKind::kInt, "chunks of a shard", int64_t{1}},
      {"groups", AttrKind::kInts,
       "how many chunks, in this order, are computed at once; none: each alone",
       Ints{}},
      WordAttr("route",
               "how chunks go: written to who needs them, read from who has "
               "them, around a ring, or once to each other host",
               kRoutes),
      {"inner", AttrKind::kInt, "ranks of a host, on a route of two levels",
       int64_t{0}},
      {"sums_in_pieces", AttrKind::kBool,
       "whether matmuls of a rank's own shard add what others computed of it, "
       "instead of a step behind them",
       false},
      {"copy_queues", AttrKind::kInt,
       "queues of a rank that copies go through, at most: one for each peer",
       int64_t{1}},
      WordAttr(
          "transport",
          "what carries chunks: copies of copy engines, or messages of the "
          "library, in exchanges",
          kTransports),
      WordAttr("form",
               "how it runs: pieces by launches of their own, or all of it, a "
               "reduction and the rows computed from it, in one kernel without "
               "pieces",
               kForms),
      {"plan", AttrKind::kPlan,
       "the steps of each rank, in the place of order, parts, groups, route, "
       "inner, sums_in_pieces and copy_queues",
       PlanRef()},
  };
}

namespace {

// Over the axis of the group, "ranks".
std::string TypeText(const Type& type, int ranks) {
  absl::StatusOr<Mesh> mesh = Mesh::Create({{"ranks", ranks}});
  ASYRA_CHECK(mesh.ok());
  return ToString(type, *mesh);
}

// Checks whether a plan that is written out is one of this body.
absl::Status CheckPlanIsOf(const ChunkPlan& plan, const GroupBody& body,
                           bool exchanges) {
  if (HasExchanges(plan) != exchanges) {
    return Invalid("transport is {}, its plan has {}exchanges",
                   exchanges ? kLibrary : kCopyEngine, exchanges ? "no " : "");
  }
  if (plan.ranks != body.ranks) {
    return Invalid("its plan is of {} ranks, the group has {}", plan.ranks,
                   body.ranks);
  }
  if (!(plan.body == body.body)) {
    return Invalid("its plan is of another body: {}, not {}",
                   BodyOutline(plan.body), BodyOutline(body.body));
  }
  for (size_t v = 0; v < body.types.size(); ++v) {
    const Type &its = plan.types[v], &type = body.types[v];
    if (its == type) continue;
    return Invalid("its plan has {} for %{} of the body, which is {}",
                   TypeText(its, body.ranks), v, TypeText(type, body.ranks));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ChunkPlan> UnprovenPlanOf(const AttrMap& attrs,
                                         absl::Span<const Type> operands,
                                         const Mesh& mesh) {
  if (IsOneKernel(attrs)) return Invalid("one kernel has no chunk plan");
  ASYRA_ASSIGN_OR_RETURN(
      GroupBody body, GroupBodyOf(*attrs.Get<BodyRef>("body"), operands, mesh));
  if (!HasOwnPlan(attrs)) return MakePlan(body, PlanShapeOf(attrs));
  const ChunkPlan& plan = *attrs.Get<PlanRef>("plan");
  ASYRA_RETURN_IF_ERROR(
      CheckPlanIsOf(plan, body, PlanShapeOf(attrs).exchanges));
  return plan;
}

absl::StatusOr<ChunkPlan> PlanOf(const AttrMap& attrs,
                                 absl::Span<const Type> operands,
                                 const Mesh& mesh) {
  ASYRA_ASSIGN_OR_RETURN(ChunkPlan plan, UnprovenPlanOf(attrs, operands, mesh));
  if (!HasOwnPlan(attrs)) ASYRA_RETURN_IF_ERROR(VerifyPlan(plan));
  return plan;
}

absl::Status CheckPlanOf(const AttrMap& attrs, absl::Span<const Type> operands,
                         const Mesh& mesh) {
  const Body& ops = *attrs.Get<BodyRef>("body");
  if (IsOneKernel(attrs)) {
    if (!(PlanShapeOf(attrs) == PlanShape()) || HasOwnPlan(attrs)) {
      return Invalid(
          "form one_kernel has no pieces: order, route, parts, groups, inner, "
          "sums_in_pieces and plan stay as they are");
    }
    return FusedReductionOf(ops, operands, mesh).status();
  }
  ASYRA_ASSIGN_OR_RETURN(GroupBody body, GroupBodyOf(ops, operands, mesh));
  if (!HasOwnPlan(attrs)) return CheckPlanShape(body, PlanShapeOf(attrs));
  bool exchanges = PlanShapeOf(attrs).exchanges;
  if (!(PlanShapeOf(attrs) == PlanShape{.exchanges = exchanges})) {
    return Invalid(
        "its plan is written out: order, route, parts, groups, inner and "
        "sums_in_pieces stay as they are");
  }
  return CheckPlanIsOf(*attrs.Get<PlanRef>("plan"), body, exchanges);
}

}  // namespace asyra
