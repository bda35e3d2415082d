#include "ir/plans/plan_packing.h"

#include "ir/support/alignment.h"
#include "ir/support/round_up.h"

namespace asyra {
namespace {

// The factors of a matmul that kernels compute themselves: other types have
// none, and sums that are not f32 may be separate kernels.
bool MayHaveRowsApart(const ChunkPlan& plan, const PlanStep& step, int read) {
  if (step.kind != PlanStep::kPiece || read > 1) return false;
  if (plan.body.ops[step.op].def->fusable != Fusable::kMatmul) return false;
  for (const PlanRegion& region : {step.reads[0], step.reads[1], step.write}) {
    DType dtype = plan.dtype(region);
    if (!IsFloat(dtype) || region.box.elements() == 0) return false;
  }
  return !AddsToResult(plan, step) || plan.dtype(step.write) == DType::kF32;
}

// Returns how far apart the rows of a box are, if that is the same for all;
// else 0.
int64_t RowStride(const Box& box, const Box& held) {
  int last = box.rank() - 1;
  if (last < 1) return 0;
  auto rows = [last](Box of) {
    of.start.resize(last);
    of.size.resize(last);
    return of;
  };
  return IsContiguous(rows(box), rows(held)) ? held.size[last] : 0;
}

}  // namespace

StepPacking StepPackingOf(const ChunkPlan& plan, const PlanStep& step,
                          int64_t alignment) {
  StepPacking packing;
  bool is_piece = step.kind == PlanStep::kPiece;
  if (!is_piece && step.kind != PlanStep::kSum) return packing;
  auto bytes_of = [&](const PlanRegion& region) {
    return BytesOf(plan, region);
  };
  auto is_aligned = [&](const PlanRegion& region) {
    int64_t begin = FirstElement(region.box, plan.buffer(region).box) *
                    SizeOf(plan.dtype(region));
    return begin % alignment == 0;
  };
  auto place = [&](const PlanRegion& region) -> int64_t {
    const Box& held = plan.buffer(region).box;
    if (IsContiguous(region.box, held) && is_aligned(region)) return -1;
    packing.copies.push_back(bytes_of(region));
    int64_t at = packing.workspace_bytes;
    packing.workspace_bytes += RoundUp(bytes_of(region), kWorkspaceAlignment);
    return at;
  };
  for (size_t k = 0; k < step.reads.size(); ++k) {
    const PlanRegion& read = step.reads[k];
    const Box& held = plan.buffer(read).box;
    int64_t stride = 0;
    if (!IsContiguous(read.box, held) && is_aligned(read) &&
        MayHaveRowsApart(plan, step, static_cast<int>(k))) {
      stride = RowStride(read.box, held);
    }
    packing.row_strides.push_back(stride);
    packing.reads.push_back(stride > 0 ? -1 : place(read));
  }
  if (is_piece && plan.body.ops[step.op].def->is_view) {
    packing.copies.push_back(bytes_of(step.write));
  } else {
    packing.write = place(step.write);
  }
  return packing;
}

MessagePacking MessagePackingOf(
    const ChunkPlan& plan, const PlanStep& exchange,
    absl::Span<const PlanExchanges::Message> incoming) {
  MessagePacking packing;
  auto place = [&](const PlanRegion& region) -> int64_t {
    if (IsContiguous(region.box, plan.buffer(region).box)) return -1;
    int64_t bytes = BytesOf(plan, region);
    packing.copies.push_back(bytes);
    int64_t at = packing.workspace_bytes;
    packing.workspace_bytes += RoundUp(bytes, kWorkspaceAlignment);
    return at;
  };
  for (const PlanRegion& read : exchange.reads) {
    packing.sent.push_back(place(read));
  }
  for (const PlanExchanges::Message& message : incoming) {
    packing.received.push_back(place(message.write));
  }
  return packing;
}

}  // namespace asyra
