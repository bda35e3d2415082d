#include "passes/search/strategy_search.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "ir/printer.h"
#include "ir/split_axes.h"
#include "ir/support/status.h"
#include "passes/search/schedule.h"
#include "passes/shard/planned_time.h"
#include "passes/shard/walk_keys.h"
#include "passes/shard/zero.h"
#include "simulator/replay/library_memory.h"
#include "simulator/replay/simulate.h"

namespace asyra {
namespace {

// The part of the steps that decomposed reductions get: a quarter of them finds
// nearly as much, and another strategy costs less time.
constexpr int kDecomposedShare = 4;
// The part that each other level of ZeRO gets.
constexpr int kZeroShare = 4;
// The part that hierarchical collectives get, and of how many strategies, the
// fastest ones, they are tried: another one may have more to gain.
constexpr int kOverHostsShare = 4;
constexpr size_t kOverHostsTried = 2;
// The part that each form of attention gets.
constexpr int kFormShare = 4;

std::string NameOfChosen(const std::vector<ScheduleChoice>& candidates) {
  auto chosen = absl::c_find_if(candidates, [](const ScheduleChoice& choice) {
    return choice.rejected.empty();
  });
  return chosen == candidates.end() ? "" : chosen->name;
}

// Returns why a strategy was not taken, beside the one of this name.
std::string WhyNotTaken(const ScheduleResult& behind,
                        const ScheduleResult& taken, std::string_view name) {
  double us = behind.optimized.makespan_us;
  double taken_us = taken.optimized.makespan_us;
  if (us < taken_us && behind.least_gain > 0) {
    return GainsTooLittle(us, behind.least_gain, taken_us, name);
  }
  return fmt::format("slower than {}", name);
}

}  // namespace

std::vector<std::string> TpStrategies(const ShardingOptions& options,
                                      const Mesh& mesh) {
  AxisId tp = mesh.Find("tp");
  if (options.tp_strategy != "auto" || options.propagate || tp < 0 ||
      mesh.size(tp) < 2) {
    return {options.tp_strategy};
  }
  // The plan that costs least unscheduled comes first; which one pipelines best
  // is not known before (simulator/README.md).
  return {"auto", "sequence", "replicated"};
}

absl::Status StrategySearch::Run() {
  const Program& start = result_->program;
  std::vector<std::string> strategies = {options_.sharding.tp_strategy};
  if (start.stage == Stage::kGlobal) {
    strategies = TpStrategies(options_.sharding, start.mesh);
  }
  best_tp_strategy_ = strategies.front();
  for (const std::string& tp_strategy : strategies) {
    ASYRA_RETURN_IF_ERROR(TryTpStrategy(tp_strategy));
  }
  if (!Ranks() && DecomposedIsOpen()) {
    ASYRA_RETURN_IF_ERROR(TryDecomposed(std::vector<Strategy>(tried_)));
  }
  if (ZeroIsOpen()) {
    ASYRA_RETURN_IF_ERROR(TryZeroLevels(strategies.front()));
  }
  if (Ranks()) ASYRA_RETURN_IF_ERROR(TryRanked());
  if (!IsSmallEnough()) ASYRA_RETURN_IF_ERROR(TryAttentionForms());
  if (!result_->schedule.has_value()) return refused_;
  absl::c_move(rejected_, std::back_inserter(result_->schedule->candidates));
  if (!options_.schedule.smallest) {
    ASYRA_RETURN_IF_ERROR(TryOverHosts());
    ASYRA_RETURN_IF_ERROR(TryMoreRecompute());
  }
  context_.remarks = std::move(remarks_);
  result_->program = result_->schedule->program;
  ASYRA_RETURN_IF_ERROR(TakeMesh());
  std::vector<RunnerUp>& others = result_->schedule->runners_up;
  ASYRA_ASSIGN_OR_RETURN(others,
                         RunnersUpOf(result_->program, std::move(others),
                                     options_.schedule.runners_up));
  return absl::OkStatus();
}

// Takes the costs and the mesh of the program that was taken, also for those
// before it was scheduled.
absl::Status StrategySearch::TakeMesh() {
  context_.own_costs = own_costs_;
  if (own_costs_ == nullptr) return absl::OkStatus();
  context_.costs = own_costs_.get();
  const Mesh& mesh = result_->program.mesh;
  for (Program* plain : {&*result_->partitioned, &*result_->unscheduled}) {
    if (plain->mesh == mesh) continue;
    ASYRA_ASSIGN_OR_RETURN(*plain,
                           SplitAxes(std::move(*plain), SplitsOf(mesh)));
    if (plain != &*result_->partitioned) continue;
    result_->schedule->baseline = Simulate(*plain, *own_costs_);
  }
  return absl::OkStatus();
}

bool StrategySearch::IsSmallEnough() const {
  const ScheduleOptions& schedule = options_.schedule;
  return schedule.smallest && result_->schedule.has_value() &&
         result_->schedule->device_bytes <= schedule.enough_bytes;
}

absl::Status StrategySearch::TryTpStrategy(const std::string& tp_strategy) {
  if (IsSmallEnough()) return absl::OkStatus();
  Strategy strategy{.tp_strategy = tp_strategy};
  if (!tried_.empty() || !looked_.empty()) {
    strategy.name = "tp-strategy " + tp_strategy;
  }
  std::string zero = options_.train.has_value() ? options_.train->zero : "";
  ASYRA_ASSIGN_OR_RETURN(bool sharded, Shard(zero, &strategy));
  if (!sharded) return absl::OkStatus();
  return Offer(std::move(strategy), options_.schedule.search_steps);
}

// Fills the program of the strategy; false, and it is rejected, if it cannot be
// sharded in a form that nobody asked for.
absl::StatusOr<bool> StrategySearch::Shard(const std::string& zero,
                                           Strategy* strategy) {
  strategy->program = result_->program;
  strategy->context = context_;
  if (strategy->program.stage == Stage::kGlobal) {
    ShardingOptions sharding = options_.sharding;
    sharding.tp_strategy = strategy->tp_strategy;
    sharding.memory_gib = CapacityGib(options_.schedule.capacity_bytes);
    std::optional<TrainOptions> train = options_.train;
    if (train.has_value()) train->zero = zero;
    absl::Status sharded =
        Run(strategy->program, ShardPasses(sharding, train), strategy->context);
    if (!strategy->name.empty() && absl::IsInvalidArgument(sharded)) {
      Reject(strategy->name, sharded);
      return false;
    }
    ASYRA_RETURN_IF_ERROR(sharded);
    sharded_.insert({strategy->tp_strategy, strategy->context.zero});
  }
  if (options_.reduce_scatter == "decomposed") {
    ASYRA_RETURN_IF_ERROR(Run(strategy->program,
                              DecomposePasses(/*copyable=*/false),
                              strategy->context));
  }
  if (options_.over_hosts == "hierarchical") {
    ASYRA_RETURN_IF_ERROR(
        Run(strategy->program, OverHostsPasses(true), strategy->context));
  }
  if (options_.head_parts > 1) {
    ASYRA_RETURN_IF_ERROR(Run(
        strategy->program, HeadPasses(options_.head_parts), strategy->context));
  }
  int64_t parts = 0;
  if (absl::SimpleAtoi(options_.key_walk, &parts)) {
    ASYRA_RETURN_IF_ERROR(
        Run(strategy->program, WalkPasses(parts), strategy->context));
  }
  return true;
}

bool StrategySearch::ZeroIsOpen() const {
  const Program& start = result_->program;
  if (!options_.train.has_value() || options_.train->zero != "auto" ||
      options_.train->what != TrainOptions::What::kStep ||
      start.stage != Stage::kGlobal || options_.sharding.propagate) {
    return false;
  }
  return absl::c_any_of(start.mesh.axes(), [](const Mesh::Axis& axis) {
    return axis.size > 1 && HasReplicas(RoleOf(axis.name));
  });
}

// Tries levels of ZeRO with the collectives around norms that are best so far.
// Level 1 has no advantage over 2. The fastest of the others is also tried with
// reduce_scatters decomposed.
absl::Status StrategySearch::TryZeroLevels(
    const std::string& first_tp_strategy) {
  size_t before = tried_.size();
  ASYRA_RETURN_IF_ERROR(
      OfferZeroLevels(best_tp_strategy_, first_tp_strategy, {"0", "2", "3"}));
  if (Ranks()) return LookAtOtherTpStrategy(first_tp_strategy);
  auto fastest = std::min_element(
      tried_.begin() + static_cast<std::ptrdiff_t>(before), tried_.end(),
      [](const Strategy& a, const Strategy& b) { return a.us < b.us; });
  if (fastest == tried_.end() || !DecomposedIsOpen()) return absl::OkStatus();
  return TryDecomposed({*fastest});
}

absl::Status StrategySearch::OfferZeroLevels(
    const std::string& tp_strategy, const std::string& first_tp_strategy,
    const std::vector<std::string>& levels) {
  std::string with = tp_strategy == first_tp_strategy
                         ? ""
                         : "tp-strategy " + tp_strategy + ", ";
  for (const std::string& level : levels) {
    // The plan's estimate has chosen this level.
    if (sharded_.contains({tp_strategy, std::stoi(level)})) continue;
    if (IsSmallEnough()) continue;
    Strategy strategy{.name = with + "zero " + level,
                      .tp_strategy = tp_strategy,
                      .zero = level};
    ASYRA_ASSIGN_OR_RETURN(bool sharded, Shard(level, &strategy));
    if (!sharded) continue;
    ASYRA_RETURN_IF_ERROR(Offer(std::move(strategy),
                                options_.schedule.search_steps / kZeroShare));
  }
  return absl::OkStatus();
}

// Copy engines gain by it: with measured_only collectives stay the library's.
bool StrategySearch::DecomposedIsOpen() const {
  return options_.reduce_scatter == "auto" && !options_.measured_only;
}

// Decomposes the reduce_scatters that copy engines can then carry, of the
// strategy that has most of them: another may be best with them whole. Of
// several the first, which costs least unscheduled.
absl::Status StrategySearch::TryDecomposed(
    const std::vector<Strategy>& strategies) {
  Strategy best;
  size_t most = 0;
  for (const Strategy& strategy : strategies) {
    Strategy decomposed = strategy;
    ASYRA_RETURN_IF_ERROR(Run(decomposed.program,
                              DecomposePasses(/*copyable=*/true),
                              decomposed.context));
    size_t added = decomposed.program.ops.size() - strategy.program.ops.size();
    if (added <= most) continue;
    most = added;
    best = std::move(decomposed);
  }
  if (most == 0) return absl::OkStatus();
  best.name += best.name.empty() ? "reduce-scatter decomposed"
                                 : ", reduce-scatter decomposed";
  std::string name = best.name;
  return Annotate(
      Offer(std::move(best), options_.schedule.search_steps / kDecomposedShare),
      name);
}

// Returns whether some collective is over several devices of several hosts.
bool StrategySearch::SpansHosts(const Strategy& strategy) {
  return absl::c_any_of(strategy.program.ops, [&](const Op& op) {
    if (!op.is_collective()) return false;
    GroupSpan span =
        strategy.context.costs->SpanOf(op.attrs.Get<AxisList>("axes"));
    return span.hosts > 1 && span.per_host > 1;
  });
}

// Tries forms of attention with the strategy that is best so far, or the plan's
// own where nothing fits. None of their times is measured.
absl::Status StrategySearch::TryAttentionForms() {
  auto fastest = absl::c_min_element(
      tried_, [](const Strategy& a, const Strategy& b) { return a.us < b.us; });
  std::optional<Strategy> best = refused_own_;
  if (fastest != tried_.end()) best = *fastest;
  if (options_.measured_only || !best.has_value()) return absl::OkStatus();
  bool fits = result_->schedule.has_value() && result_->schedule->fits;
  // A form hides what is exposed, and nothing else.
  if (fits && !options_.schedule.smallest) {
    const SimResult& step = result_->schedule->optimized;
    double hidden_us = step.makespan_us - step.exposed_comm_us;
    if (hidden_us > kFormPays * step.makespan_us) return absl::OkStatus();
  }
  int64_t host = context_.costs->machine().gpus_per_host;
  bool least = !fits || options_.schedule.smallest;
  for (const AttentionForm& form :
       AttentionFormsOf(best->program, host, least)) {
    if (form.walk > 1 && options_.key_walk != "auto") continue;
    if (form.heads > 1 && options_.head_parts != 0) continue;
    Strategy strategy = *best;
    std::string& name = strategy.name;
    if (form.heads > 1) {
      name += fmt::format("{}heads in {} parts", name.empty() ? "" : ", ",
                          form.heads);
      ASYRA_RETURN_IF_ERROR(
          Run(strategy.program, HeadPasses(form.heads), strategy.context));
    }
    if (form.walk > 1) {
      name += fmt::format("{}keys in {} parts", name.empty() ? "" : ", ",
                          form.walk);
      ASYRA_RETURN_IF_ERROR(Run(strategy.program,
                                WalkPasses(form.walk, form.merge_each),
                                strategy.context));
    }
    ASYRA_RETURN_IF_ERROR(
        Try(std::move(strategy), options_.schedule.search_steps / kFormShare));
  }
  return absl::OkStatus();
}

// None of their times is measured.
absl::Status StrategySearch::TryOverHosts() {
  if (options_.over_hosts != "auto" || options_.measured_only) {
    return absl::OkStatus();
  }
  std::vector<Strategy> fastest;
  for (const Strategy& strategy : tried_) {
    if (SpansHosts(strategy)) fastest.push_back(strategy);
  }
  absl::c_stable_sort(fastest, [](const Strategy& a, const Strategy& b) {
    return a.first_us < b.first_us;
  });
  fastest.resize(std::min(fastest.size(), kOverHostsTried));
  for (Strategy& strategy : fastest) {
    strategy.name += strategy.name.empty() ? "hierarchical over hosts"
                                           : ", hierarchical over hosts";
    size_t ops = strategy.program.ops.size();
    ASYRA_RETURN_IF_ERROR(
        Run(strategy.program, OverHostsPasses(false), strategy.context));
    if (strategy.program.ops.size() == ops) {
      Reject(strategy.name, Invalid("{}", strategy.context.remarks.back()));
      continue;
    }
    ASYRA_RETURN_IF_ERROR(Try(
        std::move(strategy), options_.schedule.search_steps / kOverHostsShare));
  }
  return absl::OkStatus();
}

// Fuses and schedules `strategy`, unless the same program was scheduled before.
// Of a training step as much is computed again as has to be: what an estimate
// says fits may not, by gaps between its values.
absl::StatusOr<std::optional<StrategySearch::Scheduled>>
StrategySearch::ScheduleIfNew(const Strategy& strategy, int search_steps) {
  ScheduleOptions schedule = ScheduleOptionsOf(options_);
  schedule.search_steps = search_steps;
  schedule.goes_on = std::exchange(goes_on_, nullptr);
  if (result_->schedule.has_value() && result_->schedule->fits) {
    schedule.rival_us = result_->schedule->round_us;
  }
  // The last that was scheduled, whether it fits or not.
  std::optional<Scheduled> last;
  for (double share : strategy.memory_shares) {
    ASYRA_ASSIGN_OR_RETURN(Scheduled result, Fuse(strategy, share));
    std::string text = ToString(result.partitioned);
    if (absl::c_linear_search(seen_, text)) continue;
    seen_.push_back(std::move(text));
    result.schedule = Schedule(result.partitioned, schedule, result.context);
    const absl::StatusOr<ScheduleResult>& found = result.schedule;
    bool fits =
        found.ok() ? found->fits : !absl::IsResourceExhausted(found.status());
    last = std::move(result);
    if (fits || Recompute() != "auto") break;
  }
  return last;
}

// Schedules it. A strategy that was not asked for is rejected where it cannot
// be scheduled.
absl::Status StrategySearch::Try(Strategy strategy, int search_steps) {
  ASYRA_ASSIGN_OR_RETURN(std::optional<Scheduled> scheduled,
                         ScheduleIfNew(strategy, search_steps));
  if (!scheduled.has_value()) return absl::OkStatus();
  absl::StatusOr<ScheduleResult>& found = scheduled->schedule;
  if (!found.ok()) {
    // Schedule refuses what takes more memory than there is, or is not cut into
    // as many tiles as were asked for. All else is a fault.
    if (!IsRefusal(found.status())) return found.status();
    bool is_own = strategy.name.empty();
    // Keys in parts may take less memory.
    int64_t host = context_.costs->machine().gpus_per_host;
    bool may_shrink = absl::IsResourceExhausted(found.status()) &&
                      !AttentionFormsOf(strategy.program, host, true).empty();
    if (is_own && !ZeroIsOpen() && !Ranks() && !may_shrink) {
      return found.status();
    }
    if (is_own || refused_.ok()) refused_ = found.status();
    if (is_own) refused_own_ = strategy;
    Reject(is_own ? kOwnName : strategy.name, found.status());
    return absl::OkStatus();
  }
  strategy.us = found->optimized.makespan_us;
  strategy.fastest_us = strategy.us;
  strategy.first_us =
      found->round_us.empty() ? strategy.us : found->round_us.front();
  strategy.memory_share = scheduled->memory_share;
  for (const ScheduleChoice& choice : found->candidates) {
    if (choice.makespan_us <= 0) continue;
    strategy.fastest_us = std::min(strategy.fastest_us, choice.makespan_us);
  }
  bool better = true;
  if (!result_->schedule.has_value()) {
    result_->partitioned = scheduled->partitioned;
    result_->schedule = *std::move(found);
    for (ScheduleChoice& choice : result_->schedule->candidates) {
      if (!strategy.name.empty()) choice.name += ", " + strategy.name;
    }
  } else {
    better = Compare(*std::move(found), strategy.name);
  }
  if (better) {
    best_ = strategy.name;
    best_tp_strategy_ = strategy.tp_strategy;
    result_->unscheduled = std::move(scheduled->partitioned);
    result_->tp_strategy = strategy.tp_strategy;
    result_->zero = scheduled->context.zero;
    result_->recompute = std::move(scheduled->recompute);
    result_->loss_chunks = scheduled->loss_chunks;
    remarks_ = std::move(scheduled->context.remarks);
    own_costs_ = std::move(scheduled->context.own_costs);
  }
  tried_.push_back(std::move(strategy));
  return absl::OkStatus();
}

// Lists a strategy that was not asked for and is not possible.
void StrategySearch::Reject(const std::string& name, const absl::Status& why) {
  std::vector<ScheduleChoice>& choices =
      result_->schedule.has_value() ? result_->schedule->candidates : rejected_;
  choices.push_back({.name = name, .rejected = std::string(MessageOf(why))});
}

absl::Status StrategySearch::Run(Program& program, const Pipeline& pipeline,
                                 PassContext& context) const {
  return RunPasses(program, pipeline, context, options_.manager,
                   &result_->timings);
}

// Takes over the other's program where that is faster; names of its candidates
// say how it differs.
bool StrategySearch::Compare(ScheduleResult other, const std::string& name) {
  ScheduleResult* best = &*result_->schedule;
  // Only without a capacity asked for there may be one that does not fit.
  bool better = other.fits != best->fits ? other.fits
                : options_.schedule.smallest
                    ? other.device_bytes < best->device_bytes
                    : other.ComparedUs() < best->ComparedUs();
  std::string suffix = name.empty() ? "" : ", " + name;
  if (options_.schedule.runners_up > 0) {
    for (RunnerUp& one : other.runners_up) one.name += suffix;
    absl::c_move(other.runners_up, std::back_inserter(best->runners_up));
    const ScheduleResult& behind = better ? *best : other;
    best->runners_up.push_back(
        {NameOfChosen(behind.candidates) + (better ? "" : suffix),
         behind.program, behind.optimized.makespan_us});
  }
  std::string_view taken = better ? name : best_;
  if (taken.empty()) taken = kOwnName;
  const std::string why = better ? WhyNotTaken(*best, other, taken)
                                 : WhyNotTaken(other, *best, taken);
  if (better) std::swap(best->program, other.program);
  for (ScheduleChoice& choice : best->candidates) {
    if (better && choice.rejected.empty()) choice.rejected = why;
  }
  for (ScheduleChoice& choice : other.candidates) {
    if (!better && choice.rejected.empty()) choice.rejected = why;
    choice.name += suffix;
    best->candidates.push_back(std::move(choice));
  }
  best->steps += other.steps;
  best->round_us =
      BestOfRounds(std::move(best->round_us), std::move(other.round_us));
  if (!better) return false;
  best->optimized = std::move(other.optimized);
  best->fits = other.fits;
  best->device_bytes = other.device_bytes;
  best->tiles = other.tiles;
  best->scheduler = std::move(other.scheduler);
  return true;
}

}  // namespace asyra
