// Candidate schedules: what passes and search make of a local program, by a
// plan that can be followed again on a program with more layers.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "passes/pass.h"
#include "passes/pass_manager.h"
#include "passes/schedule/bucket.h"
#include "passes/schedule/decisions.h"
#include "passes/schedule/order_search.h"

namespace asyra {

// In `search`, here and below, memory_bytes are of the device (CapacityBytes):
// the values of a candidate get what its libraries and kernels leave.

// Everything that was decided.
struct CandidatePlan {
  std::string name;  // "2 tiles along the batch"
  int tiles = 1;
  bool early = true;  // collectives start as early as they can
  // From the local program: its ops and their streams, then their attributes.
  Pipeline structure, attributes;
  bool joined = false;    // some small collectives are
  std::string scheduler;  // empty: the best order found
  OrderRule rule;         // tried first by the search
};

// The plan of a program that is cut into tiles along `dim`, where they are two
// or more, and of one whose collectives stay where they are unless `early`.
CandidatePlan PlanOf(std::string name, int tiles = 1,
                     const std::string& dim = "", bool early = true);

struct Candidate {
  CandidatePlan plan;
  Program program;  // stage scheduled; its order is found.best.order
  OrderSearchResult found;
  std::vector<std::string> remarks;
};

// Follows the plan; `steps` of order search. context.costs must be there.
// Errors are those of the passes: what does not cut into tiles.
absl::StatusOr<Candidate> MakeCandidate(const Program& program,
                                        const CandidatePlan& plan,
                                        const OrderSearchOptions& search,
                                        const PassContext& context,
                                        const PassManagerOptions& manager);

// Searches on, from the best order that there is.
void ImproveCandidate(Candidate* candidate, OrderSearchOptions search,
                      const CostModel& costs);

// Decides so, and takes a look at the orders of what comes out; false, and the
// candidate unspecified, where the pass changes nothing.
absl::StatusOr<bool> Decide(Candidate* candidate, const Decision& decision,
                            const Setting& setting,
                            const OrderSearchOptions& search,
                            const PassContext& context);

// Merges tiles where that pays; false where it does nowhere. Adds remarks on
// what was merged, and what was not and why.
absl::StatusOr<bool> BucketTilesOf(Candidate* candidate, BucketOptions options,
                                   const CostModel& costs);

// Joins collectives where that pays, beginning from the order that there is;
// false where it does nowhere. Adds remarks, as above.
absl::StatusOr<bool> JoinCollectivesOf(Candidate* candidate,
                                       BucketOptions options,
                                       const CostModel& costs);

}  // namespace asyra
