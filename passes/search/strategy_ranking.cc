// Strategies of a training step, ranked by a first look before one of them is
// searched.
#include <algorithm>
#include <limits>
#include <utility>

#include "absl/algorithm/container.h"
#include "ir/printer.h"
#include "ir/support/status.h"
#include "passes/search/first_look.h"
#include "passes/search/schedule.h"
#include "passes/search/strategy_search.h"
#include "simulator/replay/simulate.h"

namespace asyra {
namespace {

// The most by which a strategy may be slower than the fastest at a first look
// for a round of it to be searched, since a round may reverse such a
// difference, and the most strategies of which a round is searched.
constexpr double kLookMargin = 1.04;
constexpr size_t kMostSearched = 4;
// The most by which a strategy that is searched on may be slower than the
// fastest after a round.
constexpr double kGoOn = 1.005;

using Look = std::optional<Merit>;

bool IsBefore(const Look& a, const Look& b) {
  if (a.has_value() != b.has_value()) return a.has_value();
  return a.has_value() && a->BetterThan(*b);
}

// Returns whether a look is behind one that fits.
bool IsBehind(const Look& look, const Look& fastest) {
  return !look.has_value() || !look->fits ||
         look->makespan_us > kLookMargin * fastest->makespan_us;
}

std::string WhyBehind(const Look& look, const Look& fastest) {
  if (!look.has_value()) return "nothing is found at a first look";
  if (!look->fits) return "does not fit into the memory at a first look";
  return fmt::format("{:.1f} % slower at a first look",
                     100 * (look->makespan_us / fastest->makespan_us - 1));
}

}  // namespace

bool StrategySearch::Ranks() const {
  return options_.train.has_value() && !options_.schedule.smallest &&
         options_.schedule.scheduler == "auto" &&
         result_->program.stage == Stage::kGlobal;
}

absl::Status StrategySearch::Offer(Strategy strategy, int search_steps) {
  if (Ranks()) return Look(std::move(strategy));
  if (IsSmallEnough()) return absl::OkStatus();
  // Chunks take less by an estimate alone.
  if (options_.schedule.smallest) {
    Strategy whole = strategy;
    whole.may_chunk_loss = false;
    ASYRA_RETURN_IF_ERROR(Try(std::move(whole), search_steps));
    if (IsSmallEnough()) return absl::OkStatus();
  }
  return Try(std::move(strategy), search_steps);
}

// Unless it is the same program as another one. What has no first look comes
// last, and is refused there.
absl::Status StrategySearch::Look(Strategy strategy) {
  bool is_new = false;
  for (double share : strategy.memory_shares) {
    ASYRA_ASSIGN_OR_RETURN(Scheduled fused, Fuse(strategy, share));
    std::string text = ToString(fused.partitioned);
    if (absl::c_linear_search(looked_seen_, text)) continue;
    looked_seen_.push_back(std::move(text));
    absl::StatusOr<Merit> look =
        FirstLook(fused.partitioned, ScheduleOptionsOf(options_), fused.context,
                  &look_steps_);
    if (!look.ok() && !IsRefusal(look.status())) return look.status();
    strategy.look.reset();
    if (look.ok()) strategy.look = *look;
    if (strategy.name.empty()) {
      own_baseline_ = Simulate(fused.partitioned, *fused.context.costs);
      own_partitioned_ = std::move(fused.partitioned);
    }
    is_new = true;
    if (!look.ok() || look->fits || Recompute() != "auto") break;
  }
  if (!is_new) return absl::OkStatus();
  bool is_first = looked_.empty() || IsBefore(strategy.look, looked_[0].look);
  if (is_first) best_tp_strategy_ = strategy.tp_strategy;
  looked_.insert(is_first ? looked_.begin() : looked_.end(),
                 std::move(strategy));
  return absl::OkStatus();
}

// A first look without levels says little about tp strategies with them: the
// plan's own also gets the level that is fastest with another one.
absl::Status StrategySearch::LookAtOtherTpStrategy(
    const std::string& first_tp_strategy) {
  const Strategy& fastest = looked_[0];
  if (fastest.tp_strategy == first_tp_strategy || fastest.zero.empty()) {
    return absl::OkStatus();
  }
  return OfferZeroLevels(first_tp_strategy, first_tp_strategy,
                         {std::string(fastest.zero)});
}

// The fastest is also looked at with reduce_scatters decomposed, and replaced
// if that is faster (LookAtDecomposed). Of those that are close, one round is
// searched each, and then the fastest, with what is within kGoOn of it, to the
// end.
absl::Status StrategySearch::TryRanked() {
  SortLooked();
  if (DecomposedIsOpen()) {
    ASYRA_RETURN_IF_ERROR(LookAtDecomposed());
    SortLooked();
  }
  std::vector<const Strategy*> close;
  const std::optional<Merit>& least = looked_[0].look;
  // Any of them may fit if nothing does yet.
  bool all = !least.has_value() || !least->fits;
  for (const Strategy& strategy : looked_) {
    bool is_close =
        close.size() < kMostSearched && !IsBehind(strategy.look, least);
    if (all || is_close) {
      close.push_back(&strategy);
    } else {
      Reject(strategy, looked_[0]);
    }
  }
  double least_us = std::numeric_limits<double>::infinity();
  ASYRA_RETURN_IF_ERROR(TryFrom(0, close, &least_us));
  if (result_->schedule.has_value()) CompareWithOwn();
  return absl::OkStatus();
}

// The strategies from the k-th on, of which `least_us` is the least that a
// first round has found. Each has its first round before any has another one.
absl::Status StrategySearch::TryFrom(size_t k,
                                     const std::vector<const Strategy*>& close,
                                     double* least_us) {
  if (k == close.size()) return absl::OkStatus();
  absl::Status others;
  bool tried_others = false;
  goes_on_ = [&](double us) {
    *least_us = std::min(*least_us, us);
    if (!std::exchange(tried_others, true)) {
      others = TryFrom(k + 1, close, least_us);
    }
    return others.ok() && us <= kGoOn * *least_us;
  };
  if (close.size() == 1) goes_on_ = nullptr;
  ASYRA_RETURN_IF_ERROR(Try(*close[k], options_.schedule.search_steps));
  ASYRA_RETURN_IF_ERROR(others);
  // It had no round, since nothing fits or the program was seen before.
  goes_on_ = nullptr;
  return tried_others ? absl::OkStatus() : TryFrom(k + 1, close, least_us);
}

// Keeps the faster of the fastest at a first look and the same with
// reduce_scatters decomposed; both, where whole ones may become parts of
// overlaps, which a first look does not try.
absl::Status StrategySearch::LookAtDecomposed() {
  size_t before = looked_.size();
  std::string whole = looked_[0].name;
  ASYRA_RETURN_IF_ERROR(TryDecomposed({Strategy(looked_[0])}));
  if (looked_.size() == before ||
      absl::c_linear_search(options_.schedule.opened, "form_overlaps")) {
    return absl::OkStatus();
  }
  // Look puts the fastest first and others last.
  auto slower =
      looked_[0].name == whole ? looked_.end() - 1 : looked_.begin() + 1;
  Reject(*slower, looked_[0]);
  looked_.erase(slower);
  return absl::OkStatus();
}

// Rejects a strategy by a first look.
void StrategySearch::Reject(const Strategy& slower, const Strategy& fastest) {
  Reject(slower.name.empty() ? kOwnName : slower.name,
         Invalid("{}", WhyBehind(slower.look, fastest.look)));
}

void StrategySearch::SortLooked() {
  absl::c_stable_sort(looked_, [](const Strategy& a, const Strategy& b) {
    return IsBefore(a.look, b.look);
  });
}

// The baseline is of the plan's own strategy, whichever is tried first.
void StrategySearch::CompareWithOwn() {
  result_->schedule->steps += look_steps_;
  if (!own_partitioned_.has_value() || tried_[0].name.empty()) return;
  result_->partitioned = *std::move(own_partitioned_);
  result_->schedule->baseline = std::move(own_baseline_);
}

}  // namespace asyra
