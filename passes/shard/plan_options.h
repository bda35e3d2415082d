// The options of passes that plan shardings, as text.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "passes/pass.h"
#include "passes/shard/sharding_plan.h"

namespace asyra {

// beam, pins, experts, tp_strategy, ep_strategy; `more` before them.
std::vector<AttrDef> PlanOptionDefs(std::vector<AttrDef> more = {});

// Parses the option zero; none for "auto".
absl::StatusOr<std::optional<int>> ReadZero(const std::string& text);

// The same without pins, parsed; an error names the option and the known
// values. Costs and names of dimensions are the context's.
absl::StatusOr<PlanOptions> ReadPlanOptions(const PassOptions& options,
                                            const Program& program,
                                            const PassContext& context);

}  // namespace asyra
