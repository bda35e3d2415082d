#include "passes/draft.h"

#include <algorithm>

#include "fmt/format.h"
#include "ir/support/status.h"
#include "passes/bucket_candidates.h"
#include "passes/carry_by_copies.h"
#include "passes/reorder.h"
#include "passes/spare_processors.h"

namespace asyra {
namespace {

std::string Passes(const DraftPlan& plan) {
  std::string start =
      plan.early ? "start_collectives" : "start_collectives{early=false}";
  if (plan.tiles < 2) return start;
  return fmt::format("tile{{tiles={}, dim=\"{}\"}}, {}", plan.tiles, plan.dim,
                     start);
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

void Tell(std::string_view what, const std::vector<std::string>& texts,
          Draft* draft) {
  for (const std::string& text : texts) {
    draft->remarks.push_back(fmt::format("bucket: {}{}", what, text));
  }
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
  ASYRA_RETURN_IF_ERROR(RunPasses(draft.program, Passes(plan), own, manager));
  draft.remarks = std::move(own.remarks);
  ASYRA_RETURN_IF_ERROR(Follow(plan.merged, &draft.program));
  if (plan.streams != StreamLayout()) {
    draft.program = LayOut(draft.program, plan.streams,
                           PriceOps(draft.program, *context.costs));
  }
  ASYRA_RETURN_IF_ERROR(Follow(plan.joined, &draft.program));
  if (plan.copies) CarryByCopies(draft.program, *context.costs);
  if (plan.spares > 0) {
    SpareProcessors(draft.program, *context.costs, plan.spares);
  }
  std::vector<NamedOrder> seeds;
  OrderSearchOptions options = search;
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
        OrderBy(plan.scheduler, draft.program, context.costs, search));
    seeds.push_back({plan.scheduler, std::move(order)});
    options.steps = 0;
  }
  Search(&draft, seeds, options, *context.costs);
  return draft;
}

void ImproveDraft(Draft* draft, OrderSearchOptions search,
                  const CostModel& costs) {
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
  draft->plan.name += ", by copies";
  draft->plan.copies = true;
  ImproveDraft(draft, std::move(search), costs);
  return true;
}

bool SpareDraft(Draft* draft, int processors, OrderSearchOptions search,
                const CostModel& costs) {
  if (SpareProcessors(draft->program, costs, processors) == 0) return false;
  draft->plan.name += fmt::format(", sparing {}", processors);
  draft->plan.spares = processors;
  ImproveDraft(draft, std::move(search), costs);
  return true;
}

absl::StatusOr<bool> BucketDraft(Draft* draft, BucketOptions options,
                                 const CostModel& costs) {
  options.join = false;
  ASYRA_ASSIGN_OR_RETURN(BucketResult result,
                         BucketTiles(draft->program, costs, options));
  draft->remarks.push_back(fmt::format("bucket: {} of {} places merged",
                                       result.merged, result.places));
  Tell("", result.rejected, draft);
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
  Tell("joined ", result.joined, draft);
  Tell("", result.rejected, draft);
  if (!result.changed()) return false;
  draft->plan.name += ", collectives joined";
  draft->plan.joined = std::move(result.set);
  Take(std::move(result), draft);
  return true;
}

}  // namespace asyra
