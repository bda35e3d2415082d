#include "passes/schedule/draft.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "fmt/format.h"
#include "ir/support/status.h"
#include "passes/schedule/bucket_candidates.h"
#include "passes/schedule/carry_by_copies.h"
#include "passes/schedule/reorder.h"
#include "passes/schedule/sm_margin.h"
#include "simulator/library_memory.h"

namespace asyra {
namespace {

Pipeline Passes(const DraftPlan& plan) {
  PassRun start = MakePass("start_collectives", {{"early", plan.early}});
  if (plan.tiles < 2) return {start};
  return {MakePass("tile", {{"tiles", int64_t{plan.tiles}}, {"dim", plan.dim}}),
          start};
}

// What it leaves to the values of the draft.
OrderSearchOptions OfValues(OrderSearchOptions search, const Draft& draft,
                            const CostModel& costs) {
  search.memory_bytes =
      ValueBytes(search.memory_bytes, draft.program, costs.machine());
  return search;
}

// What it finds, and the steps and least memory of all searches so far.
void Search(Draft* draft, const std::vector<NamedOrder>& seeds,
            const OrderSearchOptions& search, const CostModel& costs) {
  OrderSearchResult found =
      SearchOrder(PricedProgram(draft->program, costs), seeds, search);
  if (draft->found.steps > 0) {
    found.steps += draft->found.steps;
    found.least_peak_bytes =
        std::min(found.least_peak_bytes, draft->found.least_peak_bytes);
  }
  draft->found = std::move(found);
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

void TellJoined(const std::vector<std::string>& texts, Draft* draft) {
  for (const std::string& text : texts) {
    draft->remarks.push_back("bucket: joined " + text);
  }
}

// What was not worth doing: the first, and how many more.
void TellRejected(const std::vector<std::string>& texts, Draft* draft) {
  if (texts.empty()) return;
  draft->remarks.push_back(fmt::format(
      "bucket: not worth it: {}{}", texts[0],
      texts.size() == 1 ? ""
                        : fmt::format(" (and {} more)", texts.size() - 1)));
}

// What is merged or joined, in the order that was found for it.
void Take(BucketResult result, Draft* draft) {
  draft->plan.rule = result.found.rule;
  draft->program = std::move(result.program);
  draft->found = std::move(result.found);
  draft->found.steps = result.steps;
}

}  // namespace

absl::StatusOr<Draft> MakeDraft(const Program& program, const DraftPlan& plan,
                                const OrderSearchOptions& search,
                                const PassContext& context,
                                const PassManagerOptions& manager) {
  Draft draft{plan, program, {}, {}};
  PassContext own = context;
  own.remarks.clear();
  PassManagerOptions naming = manager;
  naming.candidate = plan.name;
  ASYRA_RETURN_IF_ERROR(RunPasses(draft.program, Passes(plan), own, naming));
  draft.remarks = std::move(own.remarks);
  ASYRA_RETURN_IF_ERROR(Follow(plan.merged, &draft.program));
  if (plan.streams != StreamLayout()) {
    draft.program = LayOut(draft.program, plan.streams,
                           PriceOps(draft.program, *context.costs));
  }
  ASYRA_RETURN_IF_ERROR(Follow(plan.joined, &draft.program));
  if (plan.copies) CarryByCopies(draft.program, *context.costs);
  if (plan.sm_margin > 0) {
    SetSmMargin(draft.program, *context.costs, plan.sm_margin);
  }
  std::vector<NamedOrder> seeds;
  OrderSearchOptions options = OfValues(search, draft, *context.costs);
  if (!plan.early) {
    seeds.push_back({"as it stands", SerialOrder(draft.program)});
    options.steps = 0;
  } else if (plan.scheduler.empty()) {
    seeds.push_back({"serial", SerialOrder(draft.program)});
    seeds.push_back({"segrr", SegmentedRoundRobin(draft.program)});
    options.rules.push_back(plan.rule);
  } else {
    ASYRA_ASSIGN_OR_RETURN(
        std::vector<int> order,
        OrderBy(plan.scheduler, draft.program, context.costs, options));
    seeds.push_back({plan.scheduler, std::move(order)});
    options.steps = 0;
  }
  Search(&draft, seeds, options, *context.costs);
  return draft;
}

void ImproveDraft(Draft* draft, OrderSearchOptions search,
                  const CostModel& costs) {
  search = OfValues(std::move(search), *draft, costs);
  search.rules.push_back(draft->found.rule);
  std::vector<NamedOrder> seeds = {std::move(draft->found.best)};
  Search(draft, seeds, search, costs);
  draft->plan.rule = draft->found.rule;
}

Draft OnStreams(const Draft& draft, const StreamLayout& layout,
                OrderSearchOptions search, const CostModel& costs) {
  Draft laid{draft.plan, {}, {}, draft.remarks};
  laid.plan.name += ToString(layout);
  laid.plan.streams = layout;
  laid.program = LayOut(draft.program, layout, PriceOps(draft.program, costs));
  search = OfValues(std::move(search), laid, costs);
  // Streams tell classes apart: those of the old layout mean nothing here.
  laid.plan.rule.class_us.clear();
  search.rules.push_back(laid.plan.rule);
  Search(&laid, {draft.found.best}, search, costs);
  laid.plan.rule = laid.found.rule;
  return laid;
}

bool CopyDraft(Draft* draft, OrderSearchOptions search,
               const CostModel& costs) {
  if (CarryByCopies(draft->program, costs) == 0) return false;
  draft->plan.name += ", copy engines";
  draft->plan.copies = true;
  ImproveDraft(draft, std::move(search), costs);
  return true;
}

bool MarginDraft(Draft* draft, int margin, OrderSearchOptions search,
                 const CostModel& costs) {
  if (SetSmMargin(draft->program, costs, margin) == 0) return false;
  draft->plan.name += fmt::format(", SM margin {}", margin);
  draft->plan.sm_margin = margin;
  ImproveDraft(draft, std::move(search), costs);
  return true;
}

absl::StatusOr<bool> BucketDraft(Draft* draft, BucketOptions options,
                                 const CostModel& costs) {
  options.join = false;
  ASYRA_ASSIGN_OR_RETURN(BucketResult result,
                         BucketTiles(draft->program, costs, options));
  draft->remarks.push_back(fmt::format(
      "bucket: tiles merged at {} of {} points", result.merged, result.places));
  TellRejected(result.rejected, draft);
  if (!result.changed()) return false;
  draft->plan.name += ", bucketed";
  draft->plan.merged = std::move(result.set);
  Take(std::move(result), draft);
  draft->found.best.order = SerialOrder(draft->program);
  return true;
}

absl::StatusOr<bool> JoinDraft(Draft* draft, BucketOptions options,
                               const CostModel& costs) {
  options.from = &draft->found;
  ASYRA_ASSIGN_OR_RETURN(BucketResult result,
                         BucketTiles(draft->program, costs, options));
  TellJoined(result.joined, draft);
  TellRejected(result.rejected, draft);
  if (!result.changed()) return false;
  draft->plan.name += ", collectives joined";
  draft->plan.joined = std::move(result.set);
  Take(std::move(result), draft);
  return true;
}

}  // namespace asyra
