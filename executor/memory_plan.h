// The place of every value of a program in a rank's memory.
//
// A program of stage `allocated` brings its offsets; for others they are
// planned here as plan_memory does (ir/memory/place_blocks.h), except that
// results do not share the bytes of operands. Values without an offset are
// resident, or are written to the state that they replace if nothing reads it
// later, as in optimizers.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "ir/happens_before.h"
#include "ir/program.h"
#include "ir/support/alignment.h"

namespace asyra {

enum class Region : uint8_t {
  kArena,     // reused within a step
  kResident,  // kept from step to step: weights, state, constants
  kOutside,   // of a StateSet or of the caller
};

struct Placement {
  Region region = Region::kArena;
  int64_t offset = 0;  // bytes into the region; kOutside: the value
  int64_t bytes = 0;
  friend bool operator==(const Placement&, const Placement&) = default;
};

// Copies of an output after the ops of a step, in this order:
// staged values are copied, then states are replaced.
struct OutputPlacement {
  Placement at;  // where it is read after the step
  // It is in a state that this step replaces: copied to `at` first.
  bool staged = false;
  // It has to be copied from `at` to the state that it replaces.
  bool copied_to_state = false;
};

struct MemoryPlan {
  std::vector<Placement> values;  // by value; views are where their operand is
  std::vector<OutputPlacement> outputs;
  // Ops without operands that give the same at each step: run once, before
  // the first one, their results resident.
  int64_t arena_bytes = 0;
  int64_t resident_bytes = 0;
};

struct MemoryPlanOptions {
  int64_t alignment = kDeviceAlignment;
  // Guard bytes after every buffer. Offsets that came with the program leave
  // none.
  int64_t guard_bytes = 0;
  // Values that are elsewhere: inputs, or results that are no constants. Views
  // are where their operand is.
  std::vector<ValueId> outside;
};

// Errors: a value of stage `allocated` that must have an offset and has none,
// an arena beyond 2^63 bytes.
absl::StatusOr<MemoryPlan> PlanMemory(const Program& program,
                                      const HappensBefore& order,
                                      const DefUse& def_use,
                                      const MemoryPlanOptions& options);

}  // namespace asyra
