// The model to a schedule: sharded in the ways that may pay, each scheduled,
// and the best taken.
#pragma once

#include "absl/status/status.h"
#include "tools/compile.h"

namespace asyra {

// The data axes, dp and sp, one or both, whose product --ep is: experts lie
// over them. Empty where it is an axis of its own: where there are none, or
// --ranks counts it as one.
std::string ExpertAxes(const CompileOptions& options);

// Forms of the collectives around norms under tp that are compared, as values
// of --tp-style: the one asked for, and what it leaves open on `mesh`.
std::vector<std::string> TpStyles(const CompileOptions& options,
                                  const Mesh& mesh);

// The passes that shard a global program as the flags say.
std::string ShardPipeline(const CompileOptions& options);

// As Schedule takes what the flags say.
ScheduleOptions ScheduleOptionsOf(const CompileOptions& options,
                                  const PassManagerOptions& manager);

// Schedules result->program, which is sharded first if its stage is global.
// Under tp the form of the collectives around norms is part of the search: all
// are scheduled when --tp-style leaves it open, and the one with most
// reduce_scatters that copy engines can carry once more with their sums apart
// (passes/decompose_reduce_scatter.h), when --sums does. Ops are fused before.
// Fills `schedule`, whose baseline is the program that the plan alone takes,
// fused as well, `partitioned`, which is that program, `program` and the
// remarks of what was taken. Forms beside what that plan gives are rejected
// where no schedule of them fits, or they do not cut into the tiles asked for.
// Errors: those of the passes, and of Schedule for the plan's own form.
absl::Status ScheduleBestStyle(const CompileOptions& options,
                               const PassManagerOptions& manager,
                               PassContext& context, CompileResult* result);

}  // namespace asyra
