#include "executor/memory_plan.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "ir/memory/buffer_map.h"
#include "ir/memory/memory_blocks.h"
#include "ir/memory/place_blocks.h"
#include "ir/support/round_up.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

class Planner {
 public:
  Planner(const Program& program, const HappensBefore& order,
          const DefUse& def_use, const MemoryPlanOptions& options)
      : program_(program),
        order_(order),
        def_use_(def_use),
        options_(options),
        buffers_(program) {}

  absl::StatusOr<MemoryPlan> Plan() && {
    plan_.values.resize(program_.values.size());
    buffers_.AddAll();
    outside_.assign(program_.values.size(), false);
    for (ValueId value : options_.outside) outside_[value] = true;
    FindOffsets();
    PlaceInputs();
    ASYRA_RETURN_IF_ERROR(PlaceResults());
    for (size_t v = 0; v < plan_.values.size(); ++v) {
      plan_.values[v] = plan_.values[RootOf(static_cast<ValueId>(v))];
    }
    PlaceOutputs();
    if (plan_.arena_bytes < 0 || plan_.resident_bytes < 0) {
      return Invalid("the memory of {} has more than 2^63 bytes",
                     program_.name);
    }
    return std::move(plan_);
  }

 private:
  // Returns the value that owns the bytes of a view.
  ValueId RootOf(ValueId value) const { return buffers_.OwnerOf(value); }
  int64_t BytesOf(ValueId value) const {
    return LocalBytes(program_.type(value), program_.mesh);
  }
  int64_t Aligned(int64_t bytes) const {
    return RoundUp(bytes, options_.alignment);
  }

  // The offsets of the program, or else those that plan_memory would choose
  // without in-place results.
  void FindOffsets() {
    offsets_.resize(program_.values.size());
    if (program_.stage == Stage::kAllocated) {
      for (size_t v = 0; v < offsets_.size(); ++v) {
        offsets_[v] = program_.values[v].offset;
      }
      return;
    }
    MemoryBlocks blocks(program_, order_, def_use_, /*in_place=*/false);
    ArenaLayout layout = PlaceBlocks(blocks, {.padding = options_.guard_bytes});
    plan_.arena_bytes = layout.bytes;
    for (size_t v = 0; v < offsets_.size(); ++v) {
      offsets_[v] = layout.OffsetOf(blocks, static_cast<ValueId>(v));
    }
  }

  Placement Take(int64_t* region_bytes, Region region, int64_t bytes) {
    Placement placement{region, *region_bytes, bytes};
    *region_bytes += Aligned(bytes + options_.guard_bytes);
    return placement;
  }
  Placement Resident(ValueId value) {
    return Take(&plan_.resident_bytes, Region::kResident, BytesOf(value));
  }

  void PlaceInputs() {
    for (const Input& input : program_.inputs) {
      plan_.values[input.value] = outside_[input.value] ? Outside(input.value)
                                  : offsets_[input.value] >= 0
                                      ? Planned(input.value)
                                      : Resident(input.value);
    }
  }

  Placement Outside(ValueId value) const {
    return {Region::kOutside, value, BytesOf(value)};
  }

  Placement Planned(ValueId value) {
    Placement at{Region::kArena, offsets_[value], BytesOf(value)};
    plan_.arena_bytes = std::max(plan_.arena_bytes, at.offset + at.bytes);
    return at;
  }

  absl::Status PlaceResults() {
    std::vector<ValueId> state_of(program_.values.size(), kNoValue);
    for (const Output& output : program_.outputs) {
      ValueId& state = state_of[RootOf(output.value)];
      if (state == kNoValue) state = output.alias;
    }
    for (const Op& op : program_.ops) {
      if (op.def->is_view) continue;
      for (ValueId value : op.results) {
        if (outside_[value]) {
          plan_.values[value] = Outside(value);
        } else if (offsets_[value] >= 0) {
          plan_.values[value] = Planned(value);
        } else if (IsConstant(op)) {
          plan_.values[value] = Resident(value);
        } else if (state_of[value] != kNoValue) {
          plan_.values[value] = plan_.values[state_of[value]];
        } else {
          return Invalid("%{} has no offset", program_.value_name(value));
        }
      }
    }
    return absl::OkStatus();
  }

  void PlaceOutputs() {
    std::vector<bool> replaced(program_.values.size());
    for (const Output& output : program_.outputs) {
      if (output.alias != kNoValue) replaced[output.alias] = true;
    }
    for (const Output& output : program_.outputs) {
      OutputPlacement placement;
      placement.at = plan_.values[output.value];
      ValueId root = RootOf(output.value);
      bool stays = root == output.alias;
      if (replaced[root] && !stays) {
        placement.staged = true;
        placement.at =
            Take(&plan_.arena_bytes, Region::kArena, placement.at.bytes);
      }
      if (output.alias != kNoValue && !stays) {
        const Placement& state = plan_.values[output.alias];
        placement.copied_to_state = placement.at.region != state.region ||
                                    placement.at.offset != state.offset;
      }
      plan_.outputs.push_back(placement);
    }
  }

  const Program& program_;
  const HappensBefore& order_;
  const DefUse& def_use_;
  const MemoryPlanOptions& options_;
  MemoryPlan plan_;
  BufferMap buffers_;
  std::vector<int64_t> offsets_;  // in the arena; -1: is elsewhere
  std::vector<bool> outside_;     // MemoryPlanOptions::outside
};

}  // namespace

absl::StatusOr<MemoryPlan> PlanMemory(const Program& program,
                                      const HappensBefore& order,
                                      const DefUse& def_use,
                                      const MemoryPlanOptions& options) {
  return Planner(program, order, def_use, options).Plan();
}

}  // namespace asyra
