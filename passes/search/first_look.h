// A short search of a program, by which programs that do the same are ranked.
#pragma once

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/pass.h"
#include "passes/schedule/order/order_search.h"
#include "passes/search/schedule_options.h"

namespace asyra {

// Returns the best that a first look finds: a few orders of the program of few
// layers for each decision, and the computation of the layers left out, alone.
// Programs that do the same compare by it, before one of them is searched.
// `steps`, unless null, counts the orders. Errors: InvalidArgument where the
// program does not cut into the tiles asked for.
absl::StatusOr<Merit> FirstLook(const Program& program,
                                const ScheduleOptions& options,
                                PassContext& context, int* steps = nullptr);

}  // namespace asyra
