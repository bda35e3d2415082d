// The time of a step by its sharding plan, for passes that compare forms of a
// program before it is sharded.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/shard/sharding_plan.h"
#include "simulator/cost/cost_model.h"

namespace asyra {

// The share of a time below which another form of a program is worth it:
// schedules of both differ by more than a smaller gain.
inline constexpr double kFormPays = 0.97;

// Plans and partitions a program of stage global, without remarks. `pins` are a
// text as ReadPins takes it, instead of those of `options`. Errors: those of
// PlanSharding and Partition.
absl::StatusOr<Program> PlannedProgram(const Program& program,
                                       PlanOptions options,
                                       std::string_view pins,
                                       const CostModel& costs);

// Returns the sum over the ops of a local program, one after the other, in us.
double SerialUs(const Program& local, const CostModel& costs);

// Both, one after the other.
absl::StatusOr<double> PlannedUs(const Program& program,
                                 const PlanOptions& options,
                                 std::string_view pins, const CostModel& costs);

}  // namespace asyra
