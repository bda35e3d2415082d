// Merges tiles back where cutting them does not pay (ASYRA 3.3.3): small tiles
// lose efficiency, and only those beside a collective have something to hide.
// Joins different collectives into one where their latency costs more than
// beginning the first of them early gives.
//
// Candidates (bucket_candidates.h) are what all lanes have in common, in all
// layers at once: runs of computing ops, and collectives; and small collectives
// over the same devices that do not wait for each other. Each is merged, put
// in order anew and simulated alone: its value is the makespan saved, its cost
// the peak memory added. Dynamic programming picks the set of most value under
// the budget. Gains do not add up, so the set is simulated whole, beside sets
// that leave one stretch of each layer tiled; what does not help within the
// best of them is dropped again, and what is left is tried once more on top of
// it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/pass.h"
#include "passes/schedule/order_search.h"
#include "simulator/cost_model.h"

namespace asyra {

struct BucketOptions {
  int64_t memory_bytes = 0;  // the peak must not pass it; 0: any
  int steps = 8;             // of order search, for each set that is tried
  int windows = 60;          // stretches left tiled that are tried, about
  bool join = true;          // whether collectives may be joined
  // An order of the program that was searched for: nothing but joins is tried,
  // beginning from there. Null: the order of the text.
  const OrderSearchResult* from = nullptr;
};

struct BucketResult {
  // Names of the BucketCandidates() that are merged or joined.
  std::vector<std::string> set;
  Program program;  // in the order of `found`, unless one was given
  OrderSearchResult found;
  double saved_us = 0;  // against the best order found of what was given
  int merged = 0;       // places where tiles are
  int places = 0;
  int steps = 0;                      // orders simulated
  std::vector<std::string> joined;    // which collectives are, and how often
  std::vector<std::string> rejected;  // what was not merged, and why

  bool changed() const { return !set.empty(); }
};

// Of a scheduled program, tiled or not. The result is never slower than the
// program in its own order, where that fits the budget.
absl::StatusOr<BucketResult> BucketTiles(const Program& program,
                                         const CostModel& costs,
                                         const BucketOptions& options);

// The most value of items whose costs stay within `budget`: indices, in order.
// Costs are rounded up to a 256th of the budget. 0/1 knapsack by dynamic
// programming.
std::vector<int> BestSet(absl::Span<const double> values,
                         absl::Span<const int64_t> costs, int64_t budget);

// The pass. Options: memory_gib (float, as CapacityBytes takes it), steps,
// join. Error: no machine to estimate costs with.
absl::StatusOr<bool> Bucket(Program& program, const PassOptions& options,
                            PassContext& context);

}  // namespace asyra
