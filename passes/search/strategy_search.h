// Collective strategies: forms of the sharded program that differ in their
// collectives, each fused and scheduled, and the fastest taken.
//
// Under tp the collectives around norms have two strategies (--tp-strategy):
// norms replicated, or sharded along the tokens. Where copy engines connect the
// devices, a reduce_scatter may besides be an all_to_all and a reduction on the
// device (passes/shard/decompose_reduce_scatter.h): in the collective the
// reduction needs SMs at its end, and waits for a matmul that holds them.
//
// Where a mesh leads from hosts with several devices of an axis to others, the
// collectives over such axes may be made hierarchical
// (passes/shard/decompose_over_hosts.h), which splits these axes.
//
// Keys of attention that are gathered may come in parts, which are computed
// with while others come (passes/shard/walk_keys.h); and what attention reads
// and gives may be exchanged in parts of its heads
// (passes/shard/split_heads.h).
//
// A training step for which no level of ZeRO was asked for
// (passes/shard/zero.h) is also tried with the levels that the plan's estimate
// does not choose. What backward computes again is chosen for each strategy
// (search/recompute_search.h), and where the step nearly fills the memory,
// once more with a smaller goal. A step is large, and its strategies are many:
// they are ranked by a first look (schedule.h), only the fastest is searched to
// the end, and others that are close as long as they are ahead of it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "passes/compile_options.h"
#include "passes/compile_result.h"
#include "passes/pass.h"
#include "passes/schedule/order/order_search.h"
#include "passes/search/recompute_search.h"

namespace asyra {

// Returns the values of tp_strategy that are compared on `mesh`: the one asked
// for, or what the options leave open.
std::vector<std::string> TpStrategies(const ShardingOptions& options,
                                      const Mesh& mesh);

class StrategySearch {
 public:
  // Takes arguments that all outlive this. result->program is what is sharded,
  // if its stage is global, and scheduled.
  StrategySearch(const CompileOptions& options, PassContext& context,
                 CompileResult* result)
      : options_(options),
        context_(context),
        result_(result),
        fuse_(options.fuse
                  ? FusePasses(options.measured_only, options.epilogues)
                  : Pipeline()) {}

  // Fills `schedule`, whose baseline is the program of the plan that costs
  // least unscheduled, fused; `partitioned`, which is that program; `program`
  // and the remarks of what was taken. Strategies beside that plan's own are
  // listed as rejected where no schedule of them fits, or they do not cut into
  // the tiles asked for.
  // Errors: those of the passes, and of Schedule for the plan's own, unless
  // another level of ZeRO takes its place.
  absl::Status Run();

 private:
  // A local program before ops are fused, and what was said on the way to it.
  struct Strategy {
    std::string name;  // how it differs from the plan's own, "" if it does not
    std::string tp_strategy;
    std::string zero;  // the level asked for, "" for the estimate's
    int64_t loss_chunks = 1;
    bool may_chunk_loss = true;  // where memory asks for it
    Program program;
    PassContext context;
    // Shares of a device's memory: what is computed again is chosen for the
    // first with which the step fits. It fits in the program's own order: a
    // schedule needs more, for gathers that begin early.
    std::vector<double> memory_shares = {0.97, 0.94, 0.85};
    // The result of a first look; none if it finds no candidate.
    std::optional<Merit> look;
    // Set by Try: scheduled, and the fastest of its schedules, those that do
    // not fit included.
    double us = 0, fastest_us = 0;
    double first_us = 0;      // after its first round, however many follow
    double memory_share = 1;  // the one of memory_shares that was used
  };
  // The result of scheduling a strategy.
  struct Scheduled {
    Program partitioned;  // fused
    double memory_share = 1;
    std::optional<RecomputeReport> recompute;
    int64_t loss_chunks = 1;
    // Or why Schedule refuses.
    absl::StatusOr<ScheduleResult> schedule = absl::UnknownError("");
    PassContext context;
  };

  bool ZeroIsOpen() const;
  // Returns whether the schedule found is small enough, if the smallest is
  // wanted.
  bool IsSmallEnough() const;
  absl::StatusOr<bool> Shard(const std::string& zero, Strategy* strategy);
  absl::Status TryTpStrategy(const std::string& tp_strategy);
  bool DecomposedIsOpen() const;
  absl::Status TryDecomposed(const std::vector<Strategy>& strategies);
  absl::Status TryZeroLevels(const std::string& first_tp_strategy);
  absl::Status OfferZeroLevels(const std::string& tp_strategy,
                               const std::string& first_tp_strategy,
                               const std::vector<std::string>& levels);
  absl::Status LookAtOtherTpStrategy(const std::string& first_tp_strategy);
  static bool SpansHosts(const Strategy& strategy);
  absl::Status TryOverHosts();
  absl::Status TryAttentionForms();
  absl::Status TryMoreRecompute();
  // Returns the choice that was not rejected; null: all are rejected.
  const ScheduleChoice* Chosen() const;
  double ShareToFit(const ScheduleChoice& chosen) const;

  // Returns whether strategies are ranked first (strategy_ranking.cc).
  bool Ranks() const;
  absl::Status Look(Strategy strategy);
  absl::Status TryRanked();
  absl::Status LookAtDecomposed();
  absl::Status TryFrom(size_t k, const std::vector<const Strategy*>& close,
                       double* least_us);
  void SortLooked();
  void CompareWithOwn();
  void Reject(const Strategy& slower, const Strategy& fastest);

  static constexpr char kOwnName[] = "the plan's own strategy";

  // Looks at it, if strategies are ranked, or else tries it.
  absl::Status Offer(Strategy strategy, int search_steps);
  absl::Status Try(Strategy strategy, int search_steps);

  // Recomputation and chunks of the loss, for the step to fit
  // (strategy_memory.cc).
  absl::StatusOr<Scheduled> Fuse(const Strategy& strategy, double share);
  absl::StatusOr<Strategy> WithLossChunks(const Strategy& strategy,
                                          int64_t bytes);
  absl::StatusOr<double> FittedUs(const Strategy& strategy, int64_t bytes);
  RecomputeSearch& RecomputeOf(const Strategy& strategy);
  absl::StatusOr<std::optional<Scheduled>> ScheduleIfNew(
      const Strategy& strategy, int search_steps);
  absl::Status TakeMesh();
  bool Compare(ScheduleResult other, const std::string& name);
  std::string Recompute() const;  // TrainOptions::recompute
  int64_t LossChunks() const;     // TrainOptions::loss_chunks
  int64_t Capacity() const;       // of a device, in bytes; 0: no limit
  void Reject(const std::string& name, const absl::Status& why);
  absl::Status Run(Program& program, const Pipeline& pipeline,
                   PassContext& context) const;

  const CompileOptions& options_;
  PassContext& context_;
  CompileResult* result_;
  const Pipeline fuse_;
  // The levels of ZeRO that were sharded, by tp strategy.
  std::set<std::pair<std::string, int>> sharded_;
  std::vector<std::string> seen_;  // texts of programs
  // The searches by the text of the local program: several strategies may come
  // to one, and it is looked at before it is tried.
  std::map<std::string, std::unique_ptr<RecomputeSearch>> recompute_;
  std::vector<Strategy> tried_;
  std::vector<Strategy> looked_;          // if they are ranked
  std::vector<std::string> looked_seen_;  // texts of programs
  int look_steps_ = 0;
  std::function<bool(double us)> goes_on_;  // for the next one that is tried
  // The baseline of comparisons: the fused program of the plan's own strategy.
  std::optional<Program> own_partitioned_;
  SimResult own_baseline_;
  std::string best_;  // its name
  std::string best_tp_strategy_;
  absl::Status refused_;  // of the plan's own, if nothing could be scheduled
  std::optional<Strategy> refused_own_;  // the plan's own, where it was refused
  std::vector<ScheduleChoice> rejected_;  // before anything was scheduled
  // Remarks and costs of the best so far, from its context.
  std::vector<std::string> remarks_;
  std::shared_ptr<const CostModel> own_costs_;
};

}  // namespace asyra
