// Candidate schedules: what passes and search make of a local program, by a
// plan that can be followed again on a program with more layers.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "passes/pass.h"
#include "passes/pass_manager.h"
#include "passes/schedule/bucket.h"
#include "passes/schedule/order_search.h"
#include "passes/schedule/stream_layout.h"

namespace asyra {

// In `search`, here and below, memory_bytes are of the device (CapacityBytes):
// the values of a candidate get what its libraries and kernels leave.

// Everything that was decided.
struct CandidatePlan {
  std::string name;  // "2 tiles along the batch"
  int tiles = 1;
  std::string dim;                  // of the tiles
  bool early = true;                // collectives start as early as they can
  std::string scheduler;            // empty: the best order found
  std::vector<std::string> merged;  // names of BucketCandidates()
  StreamLayout streams;
  std::vector<std::string> joined;  // of those of the program on its streams
  bool copies = false;  // carry collectives (carry_by_copy_engine.h)
  int sm_margin = 0;    // of matmuls (sm_margin.h); 0: none
  OrderRule rule;       // tried first by the search
};

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

// The candidate, which has the plain layout, on other streams.
Candidate OnStreams(const Candidate& candidate, const StreamLayout& layout,
                    OrderSearchOptions search, const CostModel& costs);

// The candidate with collectives carried by copy engines where they can be, and
// a look at its orders; false, and nothing changed, where none can.
bool UseCopyEngines(Candidate* candidate, OrderSearchOptions search,
                    const CostModel& costs);

// The candidate with so many SMs left by its matmuls, and a look at its orders;
// false, and nothing changed, where none leaves any.
bool UseSmMargin(Candidate* candidate, int margin, OrderSearchOptions search,
                 const CostModel& costs);

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
