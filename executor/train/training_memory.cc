// What a training needs of a device's memory, from its programs alone.
#include <set>

#include "executor/memory_plan.h"
#include "executor/trainer.h"
#include "ir/support/status.h"
#include "ir/support/units.h"

namespace asyra {
namespace {

// Resident values of it lie in a StateSet; constants of the program are left.
absl::StatusOr<int64_t> ArenaOf(const Program& program) {
  DefUse def_use(program);
  HappensBefore order(program, def_use);
  MemoryPlanOptions options{.alignment = kDeviceAlignment};
  for (const Input& input : program.inputs) {
    if (input.role != InputRole::kData) options.outside.push_back(input.value);
  }
  ASYRA_ASSIGN_OR_RETURN(MemoryPlan plan,
                         PlanMemory(program, order, def_use, options));
  return plan.arena_bytes + plan.resident_bytes;
}

}  // namespace

absl::StatusOr<TrainingMemory> PlanTrainingMemory(
    const TrainingPrograms& programs, bool evaluates) {
  TrainingMemory memory;
  std::vector<const Program*> all = {&programs.step};
  ASYRA_ASSIGN_OR_RETURN(memory.step, ArenaOf(programs.step));
  if (programs.accumulate.has_value()) {
    all.push_back(&*programs.accumulate);
    ASYRA_ASSIGN_OR_RETURN(memory.accumulate, ArenaOf(*programs.accumulate));
  }
  if (evaluates) {
    all.push_back(&programs.evaluate);
    ASYRA_ASSIGN_OR_RETURN(memory.evaluate, ArenaOf(programs.evaluate));
  }
  std::set<std::string> counted;
  for (const Program* program : all) {
    for (const Input& input : program->inputs) {
      if (input.role == InputRole::kData ||
          !counted.insert(program->value_name(input.value)).second) {
        continue;
      }
      int64_t& part = input.role == InputRole::kParam   ? memory.params
                      : input.role == InputRole::kState ? memory.states
                                                        : memory.weights;
      part += LocalBytes(program->type(input.value), program->mesh);
    }
  }
  return memory;
}

std::string ToString(const TrainingMemory& memory) {
  std::string text = fmt::format("{} a device:", BytesText(memory.total()));
  const std::pair<const char*, int64_t> parts[] = {
      {"params", memory.params},           {"optimizer states", memory.states},
      {"other weights", memory.weights},   {"a step", memory.step},
      {"accumulating", memory.accumulate}, {"evaluating", memory.evaluate}};
  const char* before = " ";
  for (auto [what, bytes] : parts) {
    if (bytes == 0) continue;
    text += fmt::format("{}{} {}", before, what, BytesText(bytes));
    before = ", ";
  }
  return text;
}

}  // namespace asyra
