#include "passes/schedule/plan_memory.h"

#include "ir/happens_before.h"
#include "ir/memory_blocks.h"
#include "ir/place_blocks.h"
#include "ir/support/units.h"

namespace asyra {
namespace {

// Inputs and constants.
int64_t BytesOutside(const Program& program) {
  int64_t bytes = 0;
  auto add = [&](ValueId value) {
    bytes += LocalBytes(program.type(value), program.mesh);
  };
  for (const Input& input : program.inputs) add(input.value);
  for (const Op& op : program.ops) {
    if (!IsConstant(op)) continue;
    for (ValueId value : op.results) add(value);
  }
  return bytes;
}

}  // namespace

absl::StatusOr<bool> PlanMemoryPass(Program& program, const PassOptions&,
                                    PassContext& context) {
  DefUse def_use(program);
  HappensBefore order(program, def_use);
  MemoryBlocks blocks(program, order, def_use);
  ArenaLayout layout = PlaceBlocks(blocks);
  for (size_t v = 0; v < program.values.size(); ++v) {
    program.values[v].offset = layout.OffsetOf(blocks, static_cast<ValueId>(v));
  }
  program.stage = Stage::kAllocated;
  int64_t peak = blocks.PeakBytes(kArenaAlignment);
  context.Remark(
      "plan_memory: an arena of {} for values of which {} are in use at once; "
      "{} of inputs, weights, states and constants lie outside",
      BytesText(layout.bytes), BytesText(peak),
      BytesText(BytesOutside(program)));
  return true;
}

}  // namespace asyra
