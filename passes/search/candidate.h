// Candidate schedules: made of a local program by passes and search, with a
// plan that can be repeated on a program with more layers.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "passes/pass.h"
#include "passes/pass_manager.h"
#include "passes/schedule/order/order_search.h"
#include "passes/schedule/tile/bucket.h"
#include "passes/search/decisions.h"

namespace asyra {

// In `search`, here and below, memory_bytes is the capacity of the device
// (CapacityBytes); the values of a candidate get what libraries and kernels
// leave.

// All decisions that make a candidate.
struct CandidatePlan {
  std::string name;  // "2 tiles along the batch"
  int tiles = 1;
  bool early = true;  // collectives start as early as they can
  // Passes from the local program: its ops and their streams, then their
  // attributes.
  Pipeline structure, attributes;
  size_t begin = 0;     // passes of `structure` that PlanOf has put there
  bool joined = false;  // some small collectives are
  bool extra = false;   // by a decision that is_extra
  bool displaces() const { return !joined && !extra; }
  // The share of its time by which the candidate has to be faster than others
  // (Decision::least_gain).
  double least_gain = 0;
  std::string scheduler;  // empty: the best order found
  OrderRule rule;         // tried first by the search
};

// The beginning of a plan: the program is cut into tiles along `dim`, if they
// are two or more, and collectives start as early as possible if `early`; then
// come passes that are `taken` (ScheduleOptions).
struct PlanBegin {
  int tiles = 1;
  std::string dim = {};
  bool early = true;
  Pipeline taken = {};
};
CandidatePlan PlanOf(std::string name, const PlanBegin& begin = {});

// Returns the plan without this decision; none if it does not take it.
std::optional<CandidatePlan> Without(const Decision& decision,
                                     const CandidatePlan& plan);

struct Candidate {
  CandidatePlan plan;
  Program program;  // stage scheduled; its order is found.best.order
  OrderSearchResult found;
  std::vector<std::string> remarks;
  // The part of the capacity for what the program does not show: values of
  // layers that were cut (shorten.h).
  int64_t cut_bytes = 0;

  // Returns whether this is better (Merit), and faster by what the plans ask.
  bool BetterThan(const Candidate& other) const;
};

// Returns what the candidate leaves of a device's capacity; 0, no limit, stays
// 0.
int64_t CapacityLeft(int64_t capacity_bytes, const Candidate& candidate);

// Programs that passes made of one program, by the text of these passes: plans
// of a search begin with the same passes, or differ in their order alone.
using PassCache = std::map<std::string, Program>;

// Carries out the plan, with `steps` of order search. `cut_bytes` is that of
// Candidate. Needs context.costs. `passed`, unless null, is of this program:
// what comes from it has no remarks. Errors: those of the passes, such as a
// program that cannot be tiled.
absl::StatusOr<Candidate> MakeCandidate(const Program& program,
                                        const CandidatePlan& plan,
                                        const OrderSearchOptions& search,
                                        const PassContext& context,
                                        const PassManagerOptions& manager,
                                        int64_t cut_bytes = 0,
                                        PassCache* passed = nullptr);

// Searches on, from the best order that there is.
void ImproveCandidate(Candidate* candidate, OrderSearchOptions search,
                      const CostModel& costs);

// Applies the decision and simulates some orders of the result; false, and the
// candidate unspecified, if the pass changes nothing.
absl::StatusOr<bool> Decide(Candidate* candidate, const Decision& decision,
                            const Setting& setting,
                            const OrderSearchOptions& search,
                            const PassContext& context);

// Merges tiles where that pays, by `bucketing` of its program; false if it pays
// nowhere. Remarks say what was merged, and what was not and why.
absl::StatusOr<bool> BucketTilesOf(Candidate* candidate,
                                   TileBucketing* bucketing, int windows);

// Joins collectives where that pays, starting from the current order; false if
// it pays nowhere. Adds remarks, as above.
absl::StatusOr<bool> JoinCollectivesOf(Candidate* candidate,
                                       BucketOptions options,
                                       const CostModel& costs);

}  // namespace asyra
