// Mixture of experts from the form that exporters write.
#pragma once

#include "passes/pass.h"

namespace asyra {

// Sums over the choices of tokens whose rows gather their expert's weights
// become moe_dispatch, grouped_matmul and moe_combine, and the choice itself
// moe_router. Option capacity_percent as SlotsFor: 0 has a slot for every
// choice, so that nothing changes; otherwise choices beyond are dropped.
absl::StatusOr<bool> RaiseMoe(Program& program, const PassOptions& options,
                              PassContext& context);

}  // namespace asyra
