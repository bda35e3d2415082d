// Memory of a device that a training needs, from its programs alone.
#include <set>

#include "executor/memory_plan.h"
#include "executor/trainer.h"
#include "ir/support/status.h"
#include "ir/support/units.h"
#include "ir/training_names.h"

namespace asyra {
namespace {

// Plans the memory without what the StateSet stores.
absl::StatusOr<MemoryPlan> PlanOf(const Program& program) {
  DefUse def_use(program);
  HappensBefore order(program, def_use);
  MemoryPlanOptions options{.alignment = kDeviceAlignment};
  for (const Input& input : program.inputs) {
    if (input.role != InputRole::kData) options.outside.push_back(input.value);
  }
  return PlanMemory(program, order, def_use, options);
}

int64_t& PartOf(const Input& input, const std::string& name,
                TrainingMemory* memory) {
  if (input.role == InputRole::kParam) return memory->params;
  if (input.role != InputRole::kState) return memory->weights;
  return IsAccumulated(name) ? memory->sums : memory->states;
}

}  // namespace

absl::StatusOr<TrainingMemory> PlanTrainingMemory(
    const TrainingPrograms& programs, bool evaluates) {
  TrainingMemory memory;
  std::vector<std::pair<const Program*, int64_t*>> all = {
      {&programs.step, &memory.step}};
  if (programs.accumulate.has_value()) {
    all.emplace_back(&*programs.accumulate, &memory.accumulate);
  }
  if (evaluates) all.emplace_back(&programs.evaluate, &memory.evaluate);
  std::set<std::string> counted;
  for (auto [program, arena] : all) {
    ASYRA_ASSIGN_OR_RETURN(MemoryPlan plan, PlanOf(*program));
    *arena = plan.arena_bytes;
    memory.constants += plan.resident_bytes;
    for (const Input& input : program->inputs) {
      const std::string& name = program->value_name(input.value);
      if (input.role == InputRole::kData || !counted.insert(name).second) {
        continue;
      }
      PartOf(input, name, &memory) +=
          LocalBytes(program->type(input.value), program->mesh);
    }
  }
  return memory;
}

std::string ToString(const TrainingMemory& memory) {
  std::string text = fmt::format("{} a device:", BytesText(memory.total()));
  const std::pair<const char*, int64_t> parts[] = {
      {"params", memory.params},
      {"optimizer states", memory.states},
      {"sums of gradients", memory.sums},
      {"other weights", memory.weights},
      {"values of a step", memory.arena()},
      {"inputs and constants", memory.constants}};
  const char* before = " ";
  for (auto [what, bytes] : parts) {
    if (bytes == 0) continue;
    text += fmt::format("{}{} {}", before, what, BytesText(bytes));
    before = ", ";
  }
  return text;
}

}  // namespace asyra
