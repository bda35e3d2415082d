#include "executor/bench/program_calls.h"

#include <algorithm>

#include "ir/copy_engine.h"
#include "ir/ops/attention.h"
#include "ir/overlap.h"
#include "ir/parser.h"
#include "ir/plans/fused_reduction.h"
#include "ir/plans/overlap_shape.h"
#include "ir/printer.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

std::string CallText(const OpDef& def, const AttrMap& attrs,
                     absl::Span<const Type> operands, const Mesh& mesh = {}) {
  std::string types;
  for (const Type& type : operands) {
    types += (types.empty() ? "" : ", ") + ToString(type, mesh);
  }
  return fmt::format("{}({}){}", def.name, types,
                     AttrsToString(def, attrs, operands, mesh));
}

std::vector<Type> Locals(const std::vector<Type>& types, const Mesh& mesh) {
  std::vector<Type> locals;
  for (const Type& type : types) locals.push_back(type.Local(mesh));
  return locals;
}

// The text of the op over local types. Error: where these do not give the
// local results.
absl::StatusOr<std::string> LocalText(const Program& program, const Op& op) {
  for (const AttrDef& attr : op.def->attrs) {
    if (attr.kind == AttrKind::kAxes &&
        !op.attrs.Get<AxisList>(attr.name).empty()) {
      return Invalid("what it computes depends on the mesh");
    }
  }
  std::vector<Type> operands = Locals(program.OperandTypes(op), program.mesh);
  std::vector<Type> results = Locals(program.ResultTypes(op), program.mesh);
  AttrMap attrs = op.attrs;
  if (FindAttr(*op.def, "runs") != nullptr) {
    ops::PlaceLocalRows(program.type(op.operands[0]), program.mesh, &attrs);
  }
  // Tables have computation without an SM margin.
  for (const AttrDef& attr : ScheduleAttrs()) attrs.Erase(attr.name);
  if (op.def->resize != nullptr) op.def->resize(&attrs, results);
  ASYRA_ASSIGN_OR_RETURN(std::vector<Type> inferred,
                         InferTypes(*op.def, attrs, operands, Mesh()));
  if (inferred != results) {
    return Invalid("over local types it gives {} instead of {}",
                   ToString(inferred[0], {}), ToString(results[0], {}));
  }
  return CallText(*op.def, attrs, operands);
}

CollectiveCall CollectiveOf(const Program& program, const Op& op) {
  int64_t payload = 0;
  auto count = [&](const std::vector<Type>& types) {
    int64_t bytes = 0;
    for (const Type& type : types) bytes += LocalBytes(type, program.mesh);
    payload = std::max(payload, bytes);
  };
  count(program.OperandTypes(op));
  count(program.ResultTypes(op));
  auto ranks =
      static_cast<int>(program.mesh.size(op.attrs.Get<AxisList>("axes")));
  return CollectiveOf(op.def->collective, program.OperandTypes(op)[0].dtype,
                      payload, ranks,
                      AsksForCopyEngine(op.attrs) ? kByCopyEngine : "");
}

// Returns the call of an overlap, over the mesh (x=ranks).
absl::StatusOr<CollectiveCall> OverlapCall(const Program& program,
                                           const Op& op) {
  std::vector<Type> types = program.OperandTypes(op);
  ASYRA_ASSIGN_OR_RETURN(GroupBody group,
                         GroupBodyOf(*BodyOf(op.attrs), types, program.mesh));
  ASYRA_ASSIGN_OR_RETURN(Mesh mesh, Mesh::Create({{"x", group.ranks}}));
  AttrMap attrs = op.attrs;
  attrs.Set("body", BodyRef(std::move(group.body)));
  types.assign(group.types.begin(),
               group.types.begin() + static_cast<ptrdiff_t>(types.size()));
  return CollectiveCall{CallText(*op.def, attrs, types, mesh), group.ranks,
                        IsOneKernel(op.attrs)};
}

void AddOnce(const CollectiveCall& call, ProgramCalls* calls) {
  auto& all = calls->collectives;
  bool known = std::find(all.begin(), all.end(), call) != all.end();
  if (call.ranks > 1 && !known) all.push_back(call);
}

bool TakesTime(const Program& program, const Op& op) {
  if (op.def->is_view || op.def->is_wait || op.operands.empty()) return false;
  std::vector<Type> operands = program.OperandTypes(op),
                    results = program.ResultTypes(op);
  Work work = WorkOf({*op.def, op.attrs, operands, results}, program.mesh);
  return work.flops + work.read_bytes + work.write_bytes > 0;
}

void AddLocal(LocalCall call, ProgramCalls* calls) {
  for (LocalCall& known : calls->local) {
    if (known.text != call.text) continue;
    ++known.count;
    return;
  }
  calls->local.push_back(std::move(call));
}

// Adds the computations of a rank's pieces of an overlap; nothing for one
// kernel.
void AddPieces(const Program& program, const Op& op, int64_t index_limit,
               ProgramCalls* calls) {
  auto plan = UnprovenPlanOf(op.attrs, program.OperandTypes(op), program.mesh);
  if (!plan.ok()) return;
  KernelUse use(program, op, 0);
  for (const PlanStep& step : plan->steps[0]) {
    if (step.kind != PlanStep::kPiece) continue;
    PieceCall piece(*plan, step);
    const OpCall& call = piece.call();
    if (call.def.is_view) continue;
    AddLocal({CallText(call.def, call.attrs, call.operands), use.OfPart(call),
              index_limit},
             calls);
  }
}

}  // namespace

void AddCalls(const Program& program, int64_t index_limit,
              ProgramCalls* calls) {
  int64_t last = program.mesh.num_devices() - 1;
  for (const Op& op : program.ops) {
    if (!TakesTime(program, op)) continue;
    if (op.is_collective()) {
      AddOnce(CollectiveOf(program, op), calls);
      continue;
    }
    if (op.def->body_communicates) {
      absl::StatusOr<CollectiveCall> call = OverlapCall(program, op);
      if (call.ok()) AddOnce(*call, calls);
      AddPieces(program, op, index_limit, calls);
      continue;
    }
    absl::StatusOr<std::string> text = LocalText(program, op);
    // Not on the last device, but where the text has the rows.
    absl::StatusOr<LocalCall> placed = absl::NotFoundError("");
    if (text.ok() && FindAttr(*op.def, "runs") != nullptr) {
      placed = ParseLocalCall(*text, index_limit);
    }
    if (!text.ok()) {
      std::string why =
          fmt::format("{}: {}", op.def->name, MessageOf(text.status()));
      auto& out = calls->left_out;
      if (std::find(out.begin(), out.end(), why) == out.end()) {
        out.push_back(std::move(why));
      }
    } else if (placed.ok()) {
      AddLocal(*std::move(placed), calls);
    } else {
      AddLocal({*text, KernelUse(program, op, last), index_limit}, calls);
    }
  }
}

absl::StatusOr<LocalCall> ParseLocalCall(std::string_view text,
                                         int64_t index_limit) {
  ASYRA_ASSIGN_OR_RETURN(ParsedCall call, ParseCall(text, Mesh()));
  ASYRA_ASSIGN_OR_RETURN(
      std::vector<Type> results,
      InferTypes(*call.def, call.attrs, call.operands, Mesh()));
  return LocalCall{
      CallText(*call.def, call.attrs, call.operands),
      KernelUse(*call.def, call.attrs, call.operands, results, Mesh(), 0),
      index_limit};
}

CollectiveCall CollectiveOf(CollectiveKind kind, DType dtype,
                            int64_t payload_bytes, int ranks,
                            std::string_view more) {
  int64_t elements = std::max<int64_t>(payload_bytes / SizeOf(dtype), ranks);
  elements -= elements % ranks;
  std::string type(ToString(dtype)), last = "x";
  if (!more.empty()) last += fmt::format(", {}", more);
  auto text = [&]() -> std::string {
    switch (kind) {
      case CollectiveKind::kAllReduce:
        return fmt::format("all_reduce({}[{}] partial(x)) {{axes={}}}", type,
                           elements, last);
      case CollectiveKind::kAllGather:
        return fmt::format("all_gather({}[{}@x]) {{dim=0, axes={}}}", type,
                           elements, last);
      case CollectiveKind::kReduceScatter:
        return fmt::format(
            "reduce_scatter({}[{}] partial(x)) {{dim=0, axes={}}}", type,
            elements, last);
      case CollectiveKind::kAllToAll:
        return fmt::format("all_to_all({}[{}@x,{}]) {{from=0, to=1, axes={}}}",
                           type, ranks, elements, last);
      case CollectiveKind::kShift:
        return fmt::format("shift({}[{}@x]) {{dim=0, by=1, axes={}}}", type,
                           elements * ranks, last);
      case CollectiveKind::kNone:
        break;
    }
    return "";
  };
  return {text(), ranks};
}

absl::StatusOr<int64_t> PayloadOf(const CollectiveCall& call) {
  ASYRA_ASSIGN_OR_RETURN(Mesh mesh, Mesh::Create({{"x", call.ranks}}));
  ASYRA_ASSIGN_OR_RETURN(ParsedCall parsed, ParseCall(call.text, mesh));
  ASYRA_ASSIGN_OR_RETURN(
      std::vector<Type> results,
      InferTypes(*parsed.def, parsed.attrs, parsed.operands, mesh));
  return std::max(LocalBytes(parsed.operands[0], mesh),
                  LocalBytes(results[0], mesh));
}

}  // namespace asyra
