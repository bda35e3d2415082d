#include "passes/schedule/plan_memory.h"

#include <algorithm>

#include "ir/happens_before.h"
#include "ir/memory_blocks.h"
#include "ir/place_blocks.h"
#include "ir/support/units.h"
#include "simulator/cost_model.h"
#include "simulator/library_memory.h"

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

// The last percent of an arena takes most of the time. It is looked for only
// where the step would not fit the device without it.
int64_t EnoughBytes(const Program& program, int64_t peak,
                    const PassOptions& options, const PassContext& context) {
  int64_t enough = peak + peak / 128;
  if (context.costs == nullptr) return enough;
  const Machine& machine = context.costs->machine();
  int64_t capacity = ValueBytes(
      CapacityBytes(options.Float("memory_gib"), machine), program, machine);
  if (capacity == 0) return enough;
  return std::min(enough,
                  std::max<int64_t>(1, capacity - BytesOutside(program)));
}

}  // namespace

absl::StatusOr<bool> PlanMemoryPass(Program& program,
                                    const PassOptions& options,
                                    PassContext& context) {
  DefUse def_use(program);
  HappensBefore order(program, def_use);
  MemoryBlocks blocks(program, order, def_use);
  int64_t peak = blocks.PeakBytes(kArenaAlignment);
  ArenaLayout layout = PlaceBlocks(
      blocks, {.enough_bytes = EnoughBytes(program, peak, options, context)});
  for (size_t v = 0; v < program.values.size(); ++v) {
    program.values[v].offset = layout.OffsetOf(blocks, static_cast<ValueId>(v));
  }
  program.stage = Stage::kAllocated;
  context.Remark(
      "plan_memory: an arena of {} for values of which {} are in use at once; "
      "{} of inputs, weights, states and constants are outside",
      BytesText(layout.bytes), BytesText(peak),
      BytesText(BytesOutside(program)));
  return true;
}

}  // namespace asyra
