#include "passes/search/candidate.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "fmt/format.h"
#include "ir/support/status.h"
#include "passes/schedule/order/reorder.h"
#include "passes/schedule/tile/merge_groups.h"
#include "simulator/replay/library_memory.h"

namespace asyra {
namespace {

// Returns the options with the part of the memory that remains for the values
// of the candidate.
OrderSearchOptions OfValues(OrderSearchOptions search,
                            const Candidate& candidate,
                            const CostModel& costs) {
  search.memory_bytes = ValueBytes(CapacityLeft(search.memory_bytes, candidate),
                                   candidate.program, costs.machine());
  return search;
}

bool TellsPasses(const PassManagerOptions& manager) {
  return !manager.print_after.empty() || manager.print_changed ||
         !manager.dump_dir.empty() || manager.simulate_each;
}

// Goes on from the longest part of the pipeline that was run before, and keeps
// what comes after the first `begin`, and after all.
absl::Status RunPassesOnce(const Pipeline& passes, size_t begin,
                           PassContext& context,
                           const PassManagerOptions& manager, PassCache* passed,
                           Program* program) {
  if (passed == nullptr) {
    return RunPasses(*program, passes, context, manager);
  }
  std::vector<size_t> kept = {passes.size()};
  if (begin < passes.size()) kept.push_back(begin);
  auto text = [&](size_t count) {
    auto end = passes.begin() + static_cast<std::ptrdiff_t>(count);
    return ToString(Pipeline(passes.begin(), end));
  };
  auto known = absl::c_find_if(
      kept, [&](size_t count) { return passed->contains(text(count)); });
  size_t from = known == kept.end() ? 0 : *known;
  if (from > 0) *program = passed->at(text(from));
  for (auto at = std::reverse_iterator(known); at != kept.rend(); ++at) {
    Pipeline part(passes.begin() + static_cast<std::ptrdiff_t>(from),
                  passes.begin() + static_cast<std::ptrdiff_t>(*at));
    ASYRA_RETURN_IF_ERROR(RunPasses(*program, part, context, manager));
    passed->emplace(text(*at), *program);
    from = *at;
  }
  return absl::OkStatus();
}

// The result, with the steps and least memory of all searches so far.
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

void TellJoined(const std::vector<std::string>& texts, Candidate* candidate) {
  for (const std::string& text : texts) {
    candidate->remarks.push_back("bucket: joined " + text);
  }
}

// Tells rejected merges: the first, and how many more.
void TellRejected(const std::vector<std::string>& texts, Candidate* candidate) {
  if (texts.empty()) return;
  candidate->remarks.push_back(fmt::format(
      "bucket: not worth it: {}{}", texts[0],
      texts.size() == 1 ? ""
                        : fmt::format(" (and {} more)", texts.size() - 1)));
}

// The merged or joined program, in the order that was found for it.
void Take(BucketResult result, Candidate* candidate) {
  candidate->plan.rule = result.found.rule;
  candidate->program = std::move(result.program);
  candidate->found = std::move(result.found);
  candidate->found.steps = result.steps;
}

}  // namespace

int64_t CapacityLeft(int64_t capacity_bytes, const Candidate& candidate) {
  return BytesLeft(capacity_bytes, candidate.cut_bytes);
}

std::optional<CandidatePlan> Without(const Decision& decision,
                                     const CandidatePlan& plan) {
  CandidatePlan without = plan;
  size_t erased = 0;
  for (Pipeline* passes : {&without.structure, &without.attributes}) {
    erased += std::erase_if(*passes, [&](const PassRun& run) {
      return run.pass->name == decision.pass;
    });
  }
  if (erased == 0) return std::nullopt;
  // One setting's name may be part of another's.
  std::string_view name;
  for (const Setting& setting : decision.settings) {
    bool is_in = absl::StrContains(plan.name, setting.name);
    if (is_in && setting.name.size() > name.size()) name = setting.name;
  }
  without.name.erase(without.name.find(name), name.size());
  return without;
}

CandidatePlan PlanOf(std::string name, const PlanBegin& begin) {
  CandidatePlan plan{
      .name = std::move(name), .tiles = begin.tiles, .early = begin.early};
  Pipeline& passes = plan.structure;
  if (begin.tiles > 1) {
    passes.push_back(MakePass(
        "tile", {{"tiles", int64_t{begin.tiles}}, {"dim", begin.dim}}));
  }
  passes.push_back(MakePass("start_collectives", {{"early", begin.early}}));
  if (begin.early) passes.push_back(MakePass("hold_collectives"));
  absl::c_copy(begin.taken, std::back_inserter(passes));
  plan.begin = passes.size();
  return plan;
}

absl::StatusOr<Candidate> MakeCandidate(const Program& program,
                                        const CandidatePlan& plan,
                                        const OrderSearchOptions& search,
                                        const PassContext& context,
                                        const PassManagerOptions& manager,
                                        int64_t cut_bytes, PassCache* passed) {
  Candidate candidate{plan, program, {}, {}, cut_bytes};
  PassContext own = context;
  own.remarks.clear();
  PassManagerOptions naming = manager;
  naming.candidate = plan.name;
  Pipeline passes = plan.structure;
  absl::c_copy(plan.attributes, std::back_inserter(passes));
  // All candidates run their passes anew if these print or write something.
  if (TellsPasses(manager)) {
    passed = nullptr;
  } else {
    naming.verify_each = false;
  }
  ASYRA_RETURN_IF_ERROR(RunPassesOnce(passes, plan.begin, own, naming, passed,
                                      &candidate.program));
  candidate.remarks = std::move(own.remarks);
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

bool Candidate::BetterThan(const Candidate& other) const {
  auto merit = [](const Candidate& candidate) {
    Merit its = candidate.found;
    its.makespan_us = ComparedUs(its.makespan_us, candidate.plan.least_gain);
    return its;
  };
  return merit(*this).BetterThan(merit(other));
}

absl::StatusOr<bool> Decide(Candidate* candidate, const Decision& decision,
                            const Setting& setting,
                            const OrderSearchOptions& search,
                            const PassContext& context) {
  PassContext own = context;
  // Ops that become one are so in the order that was found.
  if (decision.changes_ops) {
    ApplyOrder(candidate->program, candidate->found.best.order);
  }
  // Not by the pass manager: trials are verified when the plan is repeated.
  ASYRA_ASSIGN_OR_RETURN(
      bool changed,
      setting.pass.pass->fn(candidate->program, setting.pass.options, own));
  if (!changed) return false;
  if (decision.changes_ops) {
    candidate->found.best.order = SerialOrder(candidate->program);
  }
  CandidatePlan& plan = candidate->plan;
  plan.name += setting.name;
  plan.least_gain = std::max(plan.least_gain, decision.least_gain);
  (decision.moves_ops ? plan.structure : plan.attributes)
      .push_back(setting.pass);
  // Classes depend on streams: the old ones are invalid here.
  if (decision.moves_ops) candidate->found.rule.classes.clear();
  ImproveCandidate(candidate, search, *context.costs);
  return true;
}

absl::StatusOr<bool> BucketTilesOf(Candidate* candidate,
                                   TileBucketing* bucketing, int windows) {
  ASYRA_ASSIGN_OR_RETURN(BucketResult result, bucketing->Run(windows));
  candidate->remarks.push_back(fmt::format(
      "bucket: tiles merged at {} of {} points", result.merged, result.places));
  TellRejected(result.rejected, candidate);
  if (!result.changed()) return false;
  candidate->plan.name += ", bucketed";
  candidate->plan.structure.push_back(MergePass(result.set));
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
  candidate->plan.structure.push_back(MergePass(result.set));
  candidate->plan.joined = true;
  Take(std::move(result), candidate);
  return true;
}

}  // namespace asyra
