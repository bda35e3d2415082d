#include "ir/plan_packing.h"

#include "ir/support/alignment.h"
#include "ir/support/round_up.h"

namespace asyra {

StepPacking StepPackingOf(const ChunkPlan& plan, const PlanStep& step,
                          int64_t alignment) {
  StepPacking packing;
  bool is_piece = step.kind == PlanStep::kPiece;
  if (!is_piece && step.kind != PlanStep::kSum) return packing;
  auto bytes_of = [&](const PlanRegion& region) {
    return region.box.elements() * SizeOf(plan.dtype(region));
  };
  auto place = [&](const PlanRegion& region) -> int64_t {
    const Box& held = plan.buffer(region).box;
    int64_t begin = FirstElement(region.box, held) * SizeOf(plan.dtype(region));
    if (IsContiguous(region.box, held) && begin % alignment == 0) return -1;
    packing.copies.push_back(bytes_of(region));
    int64_t at = packing.workspace_bytes;
    packing.workspace_bytes += RoundUp(bytes_of(region), kWorkspaceAlignment);
    return at;
  };
  for (const PlanRegion& read : step.reads) {
    packing.reads.push_back(place(read));
  }
  if (is_piece && plan.body.ops[step.op].def->is_view) {
    packing.copies.push_back(bytes_of(step.write));
  } else {
    packing.write = place(step.write);
  }
  return packing;
}

}  // namespace asyra
