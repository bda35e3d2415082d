// Merges tiles where tiling does not pay (ASYRA 3.3.3): small tiles lose
// efficiency, and only those beside a collective hide something. Joins
// different collectives into one where the latency saved is more than an early
// begin of the first would gain.
//
// Candidates (bucket_candidates.h) are the runs of computing ops and the
// collectives that all lanes have in common, in all layers at once, and small
// collectives over the same devices that do not wait for each other. Each is
// merged, reordered and simulated alone: its value is the makespan saved, its
// cost the peak memory added. Dynamic programming selects the set of highest
// value under the memory limit. Because gains do not add up, the whole set is
// simulated, and also sets that leave one stretch of each layer tiled. From the
// best of them, members that do not help are dropped, and the remaining
// candidates are tried once more on top of it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/pass.h"
#include "passes/schedule/order/order_search.h"
#include "simulator/cost/cost_model.h"

namespace asyra {

struct BucketOptions {
  int64_t memory_bytes = 0;  // the peak must not pass it; 0: any
  int steps = 8;             // of order search, for each set that is tried
  int windows = 60;          // stretches left tiled that are tried, about
  bool join = true;          // whether collectives may be joined
  // An order of the program that the search found: then only joins are tried,
  // starting from it. Null: program order.
  const OrderSearchResult* from = nullptr;
};

struct BucketResult {
  // NameAndKey of the BucketCandidates() that are merged or joined.
  std::vector<std::string> set;
  Program program;  // in its best order, unless one was given
  OrderSearchResult found;
  double saved_us = 0;  // against the best order found of the input
  int merged = 0;       // places where tiles are
  int places = 0;
  int steps = 0;                      // orders simulated
  std::vector<std::string> joined;    // which collectives are, and how often
  std::vector<std::string> rejected;  // what was not merged, and why

  bool changed() const { return !set.empty(); }
};

// Merges tiles of one program again with other numbers of windows: what is
// tried first, every candidate alone, does not depend on them and is tried
// once.
class TileBucketing {
 public:
  // Takes the arguments of BucketTiles; `costs`, and `from` of the options,
  // must outlive it.
  TileBucketing(const Program& program, const CostModel& costs,
                const BucketOptions& options);
  ~TileBucketing();

  // Returns the result of BucketTiles with so many windows; steps that earlier
  // runs took for it are counted again.
  absl::StatusOr<BucketResult> Run(int windows);

 private:
  class Bucketer;
  std::unique_ptr<const Program> program_;
  std::unique_ptr<Bucketer> bucketer_;
};

// Merges tiles of a scheduled program, tiled or not. The result is never slower
// than the program in its own order, where that fits the budget.
absl::StatusOr<BucketResult> BucketTiles(const Program& program,
                                         const CostModel& costs,
                                         const BucketOptions& options);

// Returns the items of most value whose costs stay within `budget`: indices, in
// order. Costs are rounded up to a 256th of the budget. 0/1 knapsack by dynamic
// programming.
std::vector<int> BestSet(absl::Span<const double> values,
                         absl::Span<const int64_t> costs, int64_t budget);

// The pass. Options: memory_gib (float, as CapacityBytes takes it), steps,
// join. Error: no machine to estimate costs with.
absl::StatusOr<bool> Bucket(Program& program, const PassOptions& options,
                            PassContext& context);

}  // namespace asyra
