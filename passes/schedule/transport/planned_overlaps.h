// Overlaps whose chunk plan is the user's own text (ir/plans/plan_text.h).
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "passes/pass.h"
#include "passes/schedule/transport/overlap_sites.h"
#include "passes/schedule/transport/put_overlaps.h"

namespace asyra {

struct OwnPlan {
  std::string file;  // whose text it is, for messages
  std::string text;
  // The name of a result of the one site that takes it; empty: all that it
  // fits.
  std::string site;
};

// Returns the sites that the plan fits, with it; remarks name the others.
// Errors: no site gives that result, or the plan fits none; then with the
// reason of the first, which names line and column.
absl::StatusOr<std::vector<FormedOverlap>> OverlapsOfPlan(
    const Program& program, std::vector<OverlapSite> sites, const OwnPlan& plan,
    PassContext* context);

}  // namespace asyra
