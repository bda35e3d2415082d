#include "passes/schedule/memory/plan_memory.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "ir/happens_before.h"
#include "ir/memory/memory_blocks.h"
#include "ir/memory/place_blocks.h"
#include "ir/support/alignment.h"
#include "ir/support/round_up.h"
#include "ir/support/status.h"
#include "ir/support/units.h"
#include "simulator/cost/cost_model.h"
#include "simulator/replay/library_memory.h"

namespace asyra {
namespace {

// Inputs and constants.
int64_t BytesOutside(const Program& program) {
  int64_t bytes = 0;
  auto add = [&](ValueId value) {
    int64_t local = LocalBytes(program.type(value), program.mesh);
    bytes += RoundUp(local, kArenaAlignment);
  };
  for (const Input& input : program.inputs) add(input.value);
  for (const Op& op : program.ops) {
    if (!IsConstant(op)) continue;
    for (ValueId value : op.results) add(value);
  }
  return bytes;
}

// Returns the bytes that the device has for an arena, at least 1; 0: no limit.
absl::StatusOr<int64_t> RoomBytes(const Program& program,
                                  const PassOptions& options,
                                  const PassContext& context) {
  if (context.costs == nullptr) return 0;
  const Machine& machine = context.costs->machine();
  ASYRA_ASSIGN_OR_RETURN(int64_t capacity,
                         ReadCapacity(options.Float("memory_gib"), machine));
  return BytesLeft(ValueBytes(capacity, program, machine),
                   BytesOutside(program));
}

// Offsets of all values, and how many bytes they need.
struct Placed {
  std::vector<int64_t> offsets;
  int64_t bytes = 0, in_use = 0;
};

// The last percent of an arena takes most of the time. It is looked for only
// where the step would not fit the device without it.
Placed Place(const Program& program, const MemoryBlocks& blocks, int64_t room) {
  Placed placed{.in_use = blocks.PeakBytes(kArenaAlignment)};
  int64_t enough = placed.in_use + placed.in_use / 128;
  if (room > 0) enough = std::min(enough, room);
  ArenaLayout layout = PlaceBlocks(blocks, {.enough_bytes = enough});
  placed.bytes = layout.bytes;
  for (size_t v = 0; v < program.values.size(); ++v) {
    placed.offsets.push_back(layout.OffsetOf(blocks, static_cast<ValueId>(v)));
  }
  return placed;
}

}  // namespace

absl::StatusOr<bool> PlanMemoryPass(Program& program,
                                    const PassOptions& options,
                                    PassContext& context) {
  DefUse def_use(program);
  HappensBefore order(program, def_use);
  ASYRA_ASSIGN_OR_RETURN(int64_t room, RoomBytes(program, options, context));
  Placed placed = Place(program, MemoryBlocks(program, order, def_use), room);
  if (room > 0 && placed.bytes > room) {
    // Long chains of results in place leave gaps. A schedule was found to fit
    // with them or without (simulator/replay/memory.h).
    Placed apart =
        Place(program,
              MemoryBlocks(program, order, def_use, /*in_place=*/false), room);
    if (apart.bytes < placed.bytes) placed = std::move(apart);
  }
  for (size_t v = 0; v < program.values.size(); ++v) {
    program.values[v].offset = placed.offsets[v];
  }
  program.stage = Stage::kAllocated;
  context.Remark(
      "plan_memory: an arena of {} for values of which {} are in use at once; "
      "{} of inputs, weights, states and constants are outside",
      BytesText(placed.bytes), BytesText(placed.in_use),
      BytesText(BytesOutside(program)));
  return true;
}

}  // namespace asyra
