// Recomputation and chunks of the loss that let a training step fit into the
// memory of a device.
#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "ir/printer.h"
#include "ir/support/status.h"
#include "passes/search/strategy_search.h"

namespace asyra {
namespace {

// Shares of the memory: that of a schedule for which it is worth trying to
// compute more again, and the one that this then aims at.
constexpr double kFull = 0.9, kShareForMore = 0.8;
// The share of the memory left where a schedule that is too large is to fit:
// its gaps may become larger.
constexpr double kMarginToFit = 0.01;
// Chunks of the loss that are tried. All tokens run at once where chunks save
// less than this share of the bytes that are missing.
constexpr int64_t kLossChunks[] = {2, 4, 8};
constexpr double kLeastSaved = 0.1;

}  // namespace

// Returns the strategy's program with the loss in as many chunks, and
// recomputed as far, as such a share of the memory asks for, and fused.
absl::StatusOr<StrategySearch::Scheduled> StrategySearch::Fuse(
    const Strategy& given, double share) {
  auto bytes = static_cast<int64_t>(share * static_cast<double>(Capacity()));
  ASYRA_ASSIGN_OR_RETURN(Strategy strategy, WithLossChunks(given, bytes));
  std::optional<RecomputeChoice> choice;
  if (Recompute() == "auto") {
    ASYRA_ASSIGN_OR_RETURN(choice, RecomputeOf(strategy).Fit(bytes));
  } else if (Recompute() != "none") {
    ASYRA_ASSIGN_OR_RETURN(choice, RecomputeOf(strategy).Without(Recompute()));
  }
  Scheduled result;
  result.memory_share = share;
  result.loss_chunks = std::max(strategy.loss_chunks, LossChunks());
  result.context = strategy.context;
  result.partitioned = std::move(strategy.program);
  if (choice.has_value()) {
    result.recompute = std::move(choice->report);
    result.partitioned = std::move(choice->program);
  }
  ASYRA_RETURN_IF_ERROR(Run(result.partitioned, fuse_, result.context));
  return result;
}

// Returns the strategy with the fewest chunks of the loss with which a training
// step fits as it is, or else the most: if that is faster than all tokens at
// once, each with what it then has to compute again.
absl::StatusOr<StrategySearch::Strategy> StrategySearch::WithLossChunks(
    const Strategy& strategy, int64_t bytes) {
  if (!options_.train.has_value() || LossChunks() != 0 || bytes == 0 ||
      !strategy.may_chunk_loss) {
    return strategy;
  }
  ASYRA_ASSIGN_OR_RETURN(int64_t missing,
                         RecomputeOf(strategy).MissingBytes(bytes));
  if (missing <= 0) return strategy;
  Strategy best = strategy;
  int64_t least = missing;
  for (int64_t chunks : kLossChunks) {
    if (least <= 0) break;
    Strategy chunked = strategy;
    // Not all tokens divide by all numbers.
    if (!Run(chunked.program, ChunkPasses(chunks), chunked.context).ok() ||
        chunked.program.ops.size() == strategy.program.ops.size()) {
      break;
    }
    chunked.loss_chunks = chunks;
    ASYRA_ASSIGN_OR_RETURN(least, RecomputeOf(chunked).MissingBytes(bytes));
    best = std::move(chunked);
  }
  if (options_.schedule.smallest) return best;
  auto saved = static_cast<double>(missing - least);
  if (saved < kLeastSaved * static_cast<double>(missing)) return strategy;
  if (Recompute() != "auto") return best;
  ASYRA_ASSIGN_OR_RETURN(double whole_us, FittedUs(strategy, bytes));
  ASYRA_ASSIGN_OR_RETURN(double chunked_us, FittedUs(best, bytes));
  return chunked_us < whole_us ? best : strategy;
}

// Returns an estimate of the step that computes again what it must, to fit.
absl::StatusOr<double> StrategySearch::FittedUs(const Strategy& strategy,
                                                int64_t bytes) {
  RecomputeSearch& search = RecomputeOf(strategy);
  ASYRA_ASSIGN_OR_RETURN(std::optional<RecomputeChoice> choice,
                         search.Fit(bytes));
  if (choice.has_value()) return choice->report.dropped.expected_us();
  ASYRA_ASSIGN_OR_RETURN(StepEstimate kept, search.KeepsAll());
  return kept.expected_us();
}

RecomputeSearch& StrategySearch::RecomputeOf(const Strategy& strategy) {
  std::unique_ptr<RecomputeSearch>& search =
      recompute_[ToString(strategy.program)];
  if (search == nullptr) {
    search = std::make_unique<RecomputeSearch>(strategy.program, fuse_,
                                               strategy.context);
  }
  return *search;
}

std::string StrategySearch::Recompute() const {
  return options_.train.has_value() ? options_.train->recompute : "none";
}

int64_t StrategySearch::LossChunks() const {
  return options_.train.has_value() ? options_.train->loss_chunks : 1;
}

int64_t StrategySearch::Capacity() const {
  return CapacityOf(options_.schedule, context_.costs->machine());
}

// Tries to compute more again where a step nearly fills the memory, which may
// leave room for a faster schedule: of the strategy that was fastest, whether
// that did fit or not.
absl::Status StrategySearch::TryMoreRecompute() {
  if (Recompute() != "auto" || !result_->schedule->fits) {
    return absl::OkStatus();
  }
  const ScheduleChoice* chosen = Chosen();
  if (chosen == nullptr || Capacity() == 0 ||
      static_cast<double>(chosen->device_bytes) <
          kFull * static_cast<double>(Capacity())) {
    return absl::OkStatus();
  }
  Strategy strategy =
      *absl::c_min_element(tried_, [](const Strategy& a, const Strategy& b) {
        return a.fastest_us < b.fastest_us;
      });
  const double before_us = result_->schedule->optimized.makespan_us;
  const std::pair<double, std::string_view> aims[] = {
      {strategy.memory_share * ShareToFit(*chosen), "recomputed to fit"},
      {kShareForMore, "more recomputed"}};
  for (const auto& [share, name] : aims) {
    if (share == 0) continue;
    Strategy with = strategy;
    with.memory_shares = {share, 0.985 * share, 0.97 * share, 0.95 * share,
                          0.85 * share};
    with.name += fmt::format("{}{}", with.name.empty() ? "" : ", ", name);
    ASYRA_RETURN_IF_ERROR(Try(with, options_.schedule.search_steps));
    if (result_->schedule->optimized.makespan_us < before_us) break;
  }
  return absl::OkStatus();
}

const ScheduleChoice* StrategySearch::Chosen() const {
  const std::vector<ScheduleChoice>& choices = result_->schedule->candidates;
  auto chosen = absl::c_find_if(choices, [](const ScheduleChoice& choice) {
    return choice.rejected.empty();
  });
  return chosen == choices.end() ? nullptr : &*chosen;
}

// Returns the share of the memory it takes with which the fastest schedule that
// does not fit would fit, if that is faster than the one chosen; else 0.
double StrategySearch::ShareToFit(const ScheduleChoice& chosen) const {
  const ScheduleChoice* fastest = nullptr;
  for (const ScheduleChoice& choice : result_->schedule->candidates) {
    if (choice.makespan_us <= 0 || choice.device_bytes <= Capacity()) continue;
    if (fastest == nullptr || choice.makespan_us < fastest->makespan_us) {
      fastest = &choice;
    }
  }
  if (fastest == nullptr || fastest->makespan_us >= chosen.makespan_us) {
    return 0;
  }
  double share = static_cast<double>(Capacity()) /
                 static_cast<double>(fastest->device_bytes);
  return std::max(share - kMarginToFit, 0.0);
}

}  // namespace asyra
