// SMs left to collectives. On GPUs whose GEMMs are persistent, holding every SM
// until they are done (Gpu::gemm_persistent), the CTAs of a collective that
// starts meanwhile wait as long; beside matmuls that leave a margin of SMs they
// start at once. On a slow link (a network, or through a host's memory) few
// CTAs are enough, and the matmuls lose little.
#pragma once

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/pass.h"
#include "simulator/cost/cost_model.h"

namespace asyra {

// The margins that are tried, in SMs.
inline constexpr int kSmMargins[] = {8, 16};

// Makes every matmul leave so many SMs, and collectives of the library get at
// most as many CTAs; those with the attribute `ctas` stay unchanged.
// Collectives with a reduction are moved from copy engines to the library,
// because the reduction needs more SMs than the margin has. Returns how many
// matmuls leave a margin; 0, and nothing is changed, if the machine's GEMMs are
// not persistent or no collective needs SMs.
int SetSmMargin(Program& program, const CostModel& costs, int margin);

// Removes the margin from matmuls that no such collective can run next to, in a
// scheduled program in its final order.
// Returns whether any had one.
bool KeepSmMarginBesideCollectives(Program& program);

// The passes `leave_sm_margin` and `trim_sm_margin`.
absl::StatusOr<bool> LeaveSmMarginPass(Program& program,
                                       const PassOptions& options,
                                       PassContext& context);
absl::StatusOr<bool> TrimSmMarginPass(Program& program,
                                      const PassOptions& options,
                                      PassContext& context);

}  // namespace asyra
