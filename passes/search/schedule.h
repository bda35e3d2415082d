// Chooses a schedule: builds candidates of a local program with the passes,
// simulates each, and returns the fastest within the memory of a device. The
// baseline is one of them, so the result is never worse than it.
//
// Expensive steps run on a program of few layers (shorten.h): merging tiles,
// searching orders, and joining collectives in the best of them. The resulting
// plans are repeated on the whole program, and its simulated step, once streams
// are assigned, decides.
//
// The search goes in rounds of a fixed size (SearchRounds). A larger budget has
// the rounds of a smaller one and more, and all their candidates: its result is
// never slower.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/pass.h"
#include "passes/schedule/order/order_search.h"
#include "passes/search/schedule_options.h"
#include "passes/search/schedule_result.h"

namespace asyra {

// Schedules a local program; context.costs must be given. A candidate replaces
// the baseline only if it is still faster when costs carry 10 % noise
// (cost_noise.h), unless the options ask for it.
// Errors: ResourceExhausted where no candidate fits the capacity given, with
// the least memory of a device that one takes; InvalidArgument where the
// program does not cut into the tiles asked for.
absl::StatusOr<ScheduleResult> Schedule(const Program& program,
                                        const ScheduleOptions& options,
                                        PassContext& context);

// Returns whether an error of Schedule is one of these two.
bool IsRefusal(const absl::Status& status);

}  // namespace asyra
