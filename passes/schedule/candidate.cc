#include "passes/schedule/candidate.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "fmt/format.h"
#include "ir/support/status.h"
#include "passes/schedule/bucket_candidates.h"
#include "passes/schedule/carry_by_copy_engine.h"
#include "passes/schedule/reorder.h"
#include "passes/schedule/sm_margin.h"
#include "simulator/library_memory.h"

namespace asyra {
namespace {

Pipeline Passes(const CandidatePlan& plan) {
  PassRun start = MakePass("start_collectives", {{"early", plan.early}});
  if (plan.tiles < 2) return {start};
  return {MakePass("tile", {{"tiles", int64_t{plan.tiles}}, {"dim", plan.dim}}),
          start};
}

// What it leaves to the values of the candidate.
OrderSearchOptions OfValues(OrderSearchOptions search,
                            const Candidate& candidate,
                            const CostModel& costs) {
  search.memory_bytes =
      ValueBytes(search.memory_bytes, candidate.program, costs.machine());
  return search;
}

// What it finds, and the steps and least memory of all searches so far.
void Search(Candidate* candidate, const std::vector<NamedOrder>& seeds,
            const OrderSearchOptions& search, const CostModel& costs) {
  OrderSearchResult found =
      SearchOrder(CostedProgram(candidate->program, costs), seeds, search);
  if (candidate->found.steps > 0) {
    found.steps += candidate->found.steps;
    found.least_peak_bytes =
        std::min(found.least_peak_bytes, candidate->found.least_peak_bytes);
  }
  candidate->found = std::move(found);
}

// Merges what was chosen.
absl::Status Follow(absl::Span<const std::string> names, Program* program) {
  if (names.empty()) return absl::OkStatus();
  std::vector<BucketCandidate> candidates = BucketCandidates(*program);
  TileMerger merger(*program);
  ASYRA_ASSIGN_OR_RETURN(
      *program,
      MergeCandidates(merger, candidates, CandidatesNamed(candidates, names)));
  return absl::OkStatus();
}

void TellJoined(const std::vector<std::string>& texts, Candidate* candidate) {
  for (const std::string& text : texts) {
    candidate->remarks.push_back("bucket: joined " + text);
  }
}

// What was not worth doing: the first, and how many more.
void TellRejected(const std::vector<std::string>& texts, Candidate* candidate) {
  if (texts.empty()) return;
  candidate->remarks.push_back(fmt::format(
      "bucket: not worth it: {}{}", texts[0],
      texts.size() == 1 ? ""
                        : fmt::format(" (and {} more)", texts.size() - 1)));
}

// What is merged or joined, in the order that was found for it.
void Take(BucketResult result, Candidate* candidate) {
  candidate->plan.rule = result.found.rule;
  candidate->program = std::move(result.program);
  candidate->found = std::move(result.found);
  candidate->found.steps = result.steps;
}

}  // namespace

absl::StatusOr<Candidate> MakeCandidate(const Program& program,
                                        const CandidatePlan& plan,
                                        const OrderSearchOptions& search,
                                        const PassContext& context,
                                        const PassManagerOptions& manager) {
  Candidate candidate{plan, program, {}, {}};
  PassContext own = context;
  own.remarks.clear();
  PassManagerOptions naming = manager;
  naming.candidate = plan.name;
  ASYRA_RETURN_IF_ERROR(
      RunPasses(candidate.program, Passes(plan), own, naming));
  candidate.remarks = std::move(own.remarks);
  ASYRA_RETURN_IF_ERROR(Follow(plan.merged, &candidate.program));
  if (plan.streams != StreamLayout()) {
    candidate.program =
        LayOut(candidate.program, plan.streams,
               EstimateCosts(candidate.program, *context.costs));
  }
  ASYRA_RETURN_IF_ERROR(Follow(plan.joined, &candidate.program));
  if (plan.copies) CarryByCopyEngine(candidate.program, *context.costs);
  if (plan.sm_margin > 0) {
    SetSmMargin(candidate.program, *context.costs, plan.sm_margin);
  }
  std::vector<NamedOrder> seeds;
  OrderSearchOptions options = OfValues(search, candidate, *context.costs);
  if (!plan.early) {
    seeds.push_back({"baseline", SerialOrder(candidate.program)});
    options.steps = 0;
  } else if (plan.scheduler.empty()) {
    seeds.push_back({"serial", SerialOrder(candidate.program)});
    seeds.push_back({"segrr", SegmentedRoundRobin(candidate.program)});
    options.rules.push_back(plan.rule);
  } else {
    ASYRA_ASSIGN_OR_RETURN(
        std::vector<int> order,
        OrderBy(plan.scheduler, candidate.program, context.costs, options));
    seeds.push_back({plan.scheduler, std::move(order)});
    options.steps = 0;
  }
  Search(&candidate, seeds, options, *context.costs);
  return candidate;
}

void ImproveCandidate(Candidate* candidate, OrderSearchOptions search,
                      const CostModel& costs) {
  search = OfValues(std::move(search), *candidate, costs);
  search.rules.push_back(candidate->found.rule);
  std::vector<NamedOrder> seeds = {std::move(candidate->found.best)};
  Search(candidate, seeds, search, costs);
  candidate->plan.rule = candidate->found.rule;
}

Candidate OnStreams(const Candidate& candidate, const StreamLayout& layout,
                    OrderSearchOptions search, const CostModel& costs) {
  Candidate laid{candidate.plan, {}, {}, candidate.remarks};
  laid.plan.name += ToString(layout);
  laid.plan.streams = layout;
  laid.program = LayOut(candidate.program, layout,
                        EstimateCosts(candidate.program, costs));
  search = OfValues(std::move(search), laid, costs);
  // Streams tell classes apart: those of the old layout mean nothing here.
  laid.plan.rule.class_us.clear();
  search.rules.push_back(laid.plan.rule);
  Search(&laid, {candidate.found.best}, search, costs);
  laid.plan.rule = laid.found.rule;
  return laid;
}

bool UseCopyEngines(Candidate* candidate, OrderSearchOptions search,
                    const CostModel& costs) {
  if (CarryByCopyEngine(candidate->program, costs) == 0) return false;
  candidate->plan.name += ", copy engines";
  candidate->plan.copies = true;
  ImproveCandidate(candidate, std::move(search), costs);
  return true;
}

bool UseSmMargin(Candidate* candidate, int margin, OrderSearchOptions search,
                 const CostModel& costs) {
  if (SetSmMargin(candidate->program, costs, margin) == 0) return false;
  candidate->plan.name += fmt::format(", SM margin {}", margin);
  candidate->plan.sm_margin = margin;
  ImproveCandidate(candidate, std::move(search), costs);
  return true;
}

absl::StatusOr<bool> BucketTilesOf(Candidate* candidate, BucketOptions options,
                                   const CostModel& costs) {
  options.join = false;
  ASYRA_ASSIGN_OR_RETURN(BucketResult result,
                         BucketTiles(candidate->program, costs, options));
  candidate->remarks.push_back(fmt::format(
      "bucket: tiles merged at {} of {} points", result.merged, result.places));
  TellRejected(result.rejected, candidate);
  if (!result.changed()) return false;
  candidate->plan.name += ", bucketed";
  candidate->plan.merged = std::move(result.set);
  Take(std::move(result), candidate);
  candidate->found.best.order = SerialOrder(candidate->program);
  return true;
}

absl::StatusOr<bool> JoinCollectivesOf(Candidate* candidate,
                                       BucketOptions options,
                                       const CostModel& costs) {
  options.from = &candidate->found;
  ASYRA_ASSIGN_OR_RETURN(BucketResult result,
                         BucketTiles(candidate->program, costs, options));
  TellJoined(result.joined, candidate);
  TellRejected(result.rejected, candidate);
  if (!result.changed()) return false;
  candidate->plan.name += ", collectives joined";
  candidate->plan.joined = std::move(result.set);
  Take(std::move(result), candidate);
  return true;
}

}  // namespace asyra
