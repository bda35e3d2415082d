#include "executor/memory_plan.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

// How often to look for buffers that no later op can meet.
constexpr int kForgetEvery = 64;

struct Buffer {
  int64_t begin = 0, end = 0;  // with guards
  HappensBefore::Frontier accesses;
  bool kept = false;  // until the step has ended
};

class Planner {
 public:
  Planner(const Program& program, const HappensBefore& order,
          const DefUse& def_use, const MemoryPlanOptions& options)
      : program_(program),
        order_(order),
        def_use_(def_use),
        options_(options),
        root_(program.values.size()),
        last_on_(program.streams.size() + 1, -1),
        ends_on_(program.streams.size() + 1, -1) {}

  absl::StatusOr<MemoryPlan> Plan() && {
    plan_.values.resize(program_.values.size());
    plan_.is_constant.resize(program_.ops.size());
    for (size_t v = 0; v < root_.size(); ++v) root_[v] = static_cast<int>(v);
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      const Op& op = program_.ops[i];
      if (op.def->is_view) root_[op.results[0]] = root_[op.operands[0]];
      ends_on_[Slot(op)] = static_cast<int>(i);
    }
    FindAccesses();
    PlaceInputs();
    if (program_.stage == Stage::kAllocated) {
      ASYRA_RETURN_IF_ERROR(TakeOffsets());
    } else {
      PlaceResults();
    }
    for (size_t v = 0; v < root_.size(); ++v) {
      plan_.values[v] = plan_.values[root_[v]];
    }
    PlaceOutputs();
    if (plan_.arena_bytes < 0 || plan_.resident_bytes < 0) {
      return Invalid("the memory of {} has more than 2^63 bytes",
                     program_.name);
    }
    return std::move(plan_);
  }

 private:
  size_t Slot(const Op& op) const { return op.stream + 1; }
  int64_t BytesOf(ValueId value) const {
    return program_.type(value).Local(program_.mesh).bytes();
  }
  int64_t Aligned(int64_t bytes) const {
    return (bytes + options_.alignment - 1) / options_.alignment *
           options_.alignment;
  }

  void FindAccesses() {
    accesses_.assign(program_.values.size(), HappensBefore::Frontier(order_));
    kept_.assign(program_.values.size(), false);
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      const Op& op = program_.ops[i];
      for (ValueId value : op.operands) {
        order_.Add(static_cast<int>(i), &accesses_[root_[value]]);
        if (!op.start) continue;
        order_.Add(def_use_.FirstWait(op), &accesses_[root_[value]]);
      }
      for (ValueId value : op.results) {
        order_.Add(static_cast<int>(i), &accesses_[root_[value]]);
      }
    }
    for (const Output& output : program_.outputs) {
      kept_[root_[output.value]] = true;
      if (output.alias != kNoValue) readers_[output.alias];
    }
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      for (ValueId value : program_.ops[i].operands) {
        auto state = readers_.find(root_[value]);
        if (state == readers_.end()) continue;
        state->second.push_back(static_cast<int>(i));
      }
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
      const Value& value = program_.values[input.value];
      Placement& at = plan_.values[input.value];
      bool planned = program_.stage == Stage::kAllocated;
      if (planned && value.offset >= 0) {
        at = Planned(input.value);
      } else if (planned || input.role != InputRole::kData) {
        at = Resident(input.value);
      } else {
        at = Fit(input.value, -1);
      }
    }
  }

  Placement Planned(ValueId value) {
    Placement at{Region::kArena, program_.values[value].offset, BytesOf(value)};
    plan_.arena_bytes = std::max(plan_.arena_bytes, at.offset + at.bytes);
    return at;
  }

  absl::Status TakeOffsets() {
    std::vector<ValueId> state_of(program_.values.size(), kNoValue);
    for (const Output& output : program_.outputs) {
      ValueId& state = state_of[root_[output.value]];
      if (state == kNoValue) state = output.alias;
    }
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      const Op& op = program_.ops[i];
      if (op.def->is_view) continue;
      bool outside = true;
      for (ValueId value : op.results) {
        outside &= program_.values[value].offset < 0;
      }
      plan_.is_constant[i] =
          outside && IsSetUpOnce(*op.def, op.operands.size());
      for (ValueId value : op.results) {
        if (program_.values[value].offset >= 0) {
          plan_.values[value] = Planned(value);
        } else if (IsSetUpOnce(*op.def, op.operands.size())) {
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

  void PlaceResults() {
    FindInPlace();
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      const Op& op = program_.ops[i];
      int index = static_cast<int>(i);
      last_on_[Slot(op)] = index;
      plan_.is_constant[i] = IsSetUpOnce(*op.def, op.operands.size());
      for (ValueId value : op.results) {
        if (!op.def->is_view) plan_.values[value] = Place(value, index);
      }
      if (i % kForgetEvery == 0) Forget();
    }
  }

  Placement Place(ValueId value, int def) {
    if (plan_.is_constant[def]) return Resident(value);
    if (!in_place_.empty() && in_place_[value] != kNoValue) {
      return plan_.values[in_place_[value]];
    }
    return Fit(value, def);
  }

  // Outputs that may be written over the state that they replace: all that
  // read the state have finished before, or it is read by the op that gives
  // the output and works in place.
  void FindInPlace() {
    for (const Output& output : program_.outputs) {
      if (output.alias == kNoValue) continue;
      ValueId root = root_[output.value];
      int def = def_use_.def[root];
      bool shared = kept_[output.alias];  // read after the step as well
      if (def < 0 || shared || program_.ops[def].operands.empty() ||
          !IsLastReader(def, output.alias, root)) {
        continue;
      }
      if (in_place_.empty()) {
        in_place_.assign(program_.values.size(), kNoValue);
      }
      if (in_place_[root] == kNoValue) in_place_[root] = output.alias;
    }
  }

  bool IsLastReader(int def, ValueId state, ValueId result) const {
    for (int reader : readers_.at(state)) {
      if (reader != def && !order_.Finished(reader, def)) return false;
    }
    const Op& op = program_.ops[def];
    for (ValueId operand : op.operands) {
      if (root_[operand] != state) continue;
      bool alone = operand == state && !op.is_collective() &&
                   MayLieOnOperand(program_, op, result) &&
                   program_.type(state) == program_.type(result);
      if (!alone) return false;
    }
    return true;
  }

  // The smallest gap between buffers that may be in use when op `def` runs.
  Placement Fit(ValueId value, int def) {
    int64_t bytes = BytesOf(value);
    int64_t size = Aligned(std::max<int64_t>(bytes, 1) + options_.guard_bytes);
    int64_t best = -1, best_gap = INT64_MAX, end = 0;
    for (const Buffer& buffer : buffers_) {  // ascending by begin
      bool free = def >= 0 && !buffer.kept &&
                  order_.Unfinished(buffer.accesses, def) < 0;
      if (free) continue;
      int64_t gap = buffer.begin - end;
      if (gap >= size && gap < best_gap) {
        best = end;
        best_gap = gap;
      }
      end = std::max(end, buffer.end);
    }
    if (best < 0) best = end;
    Buffer fresh{best, best + size, accesses_[value], kept_[value]};
    auto at = std::upper_bound(
        buffers_.begin(), buffers_.end(), fresh.begin,
        [](int64_t begin, const Buffer& b) { return begin < b.begin; });
    buffers_.insert(at, fresh);
    plan_.arena_bytes = std::max(plan_.arena_bytes, fresh.end);
    return {Region::kArena, best, bytes};
  }

  // Drops buffers that are free for the latest op of every stream on which
  // more is to come, and so for all that come.
  void Forget() {
    auto done = [&](const Buffer& buffer) {
      if (buffer.kept) return false;
      for (size_t s = 0; s < last_on_.size(); ++s) {
        if (ends_on_[s] < 0 || ends_on_[s] == last_on_[s]) continue;
        if (order_.Unfinished(buffer.accesses, last_on_[s]) >= 0) return false;
      }
      return true;
    };
    buffers_.erase(std::remove_if(buffers_.begin(), buffers_.end(), done),
                   buffers_.end());
  }

  void PlaceOutputs() {
    std::vector<bool> replaced(program_.values.size());
    for (const Output& output : program_.outputs) {
      if (output.alias != kNoValue) replaced[output.alias] = true;
    }
    for (const Output& output : program_.outputs) {
      OutputPlacement placement;
      placement.at = plan_.values[output.value];
      ValueId root = root_[output.value];
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
  std::vector<ValueId> root_;  // of a view, the value that owns the bytes
  std::vector<HappensBefore::Frontier> accesses_;           // by root
  std::vector<bool> kept_;                                  // by root
  absl::flat_hash_map<ValueId, std::vector<int>> readers_;  // of states, ops
  std::vector<ValueId> in_place_;       // by root, the state; empty: none
  std::vector<Buffer> buffers_;         // of the arena
  std::vector<int> last_on_, ends_on_;  // by stream, ops
};

}  // namespace

absl::StatusOr<MemoryPlan> PlanMemory(const Program& program,
                                      const HappensBefore& order,
                                      const DefUse& def_use,
                                      const MemoryPlanOptions& options) {
  return Planner(program, order, def_use, options).Plan();
}

}  // namespace asyra
