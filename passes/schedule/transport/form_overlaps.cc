#include "passes/schedule/transport/form_overlaps.h"

#include <optional>

#include "absl/algorithm/container.h"
#include "ir/overlap.h"
#include "ir/support/file.h"
#include "ir/support/status.h"
#include "passes/schedule/transport/join_overlaps.h"
#include "passes/schedule/transport/overlap_choice.h"
#include "passes/schedule/transport/overlap_sites.h"
#include "passes/schedule/transport/planned_overlaps.h"
#include "passes/schedule/transport/put_overlaps.h"

namespace asyra {

absl::StatusOr<int> FormOverlaps(Program& program,
                                 const OverlapOptions& options,
                                 const CostModel& costs) {
  std::vector<OverlapSite> sites =
      FindOverlapSites(program, {.gathers = options.gathers && !options.joined,
                                 .reductions = options.reductions});
  OverlapChoice choice(program, options.taking, costs);
  std::vector<FormedOverlap> formed;
  if (options.joined) {
    formed = JoinedOverlaps(program, std::move(sites), choice);
  } else {
    for (OverlapSite& site : sites) {
      std::optional<AttrMap> attrs = choice.Choose(site);
      if (!attrs.has_value()) continue;
      formed.push_back({std::move(site), *std::move(attrs)});
    }
  }
  auto count = static_cast<int>(formed.size());
  PutOverlaps(std::move(formed), &program);
  return count;
}

namespace {

OverlapTaking TakingOf(const PassOptions& options) {
  if (options.Bool("always")) return OverlapTaking::kAll;
  return options.Bool("measured") ? OverlapTaking::kMeasured
                                  : OverlapTaking::kGaining;
}

// Forms overlaps with the plan of a file, where it fits.
absl::StatusOr<bool> FormPlanned(Program& program, const OverlapOptions& own,
                                 const PassOptions& options,
                                 PassContext& context) {
  if (own.joined) {
    return Invalid("a plan is of one site, joined=true makes one of several");
  }
  OwnPlan plan{.file = options.Get<std::string>("plan"),
               .site = options.Get<std::string>("site")};
  ASYRA_ASSIGN_OR_RETURN(plan.text, ReadFile(plan.file));
  std::vector<OverlapSite> sites = FindOverlapSites(
      program, {.gathers = own.gathers, .reductions = own.reductions});
  ASYRA_ASSIGN_OR_RETURN(
      std::vector<FormedOverlap> formed,
      OverlapsOfPlan(program, std::move(sites), plan, &context));
  PutOverlaps(std::move(formed), &program);
  return true;
}

}  // namespace

absl::StatusOr<bool> FormOverlapsPass(Program& program,
                                      const PassOptions& options,
                                      PassContext& context) {
  OverlapOptions own{.gathers = options.Bool("gathers"),
                     .reductions = options.Bool("reductions"),
                     .taking = TakingOf(options),
                     .joined = options.Bool("joined")};
  if (!options.Get<std::string>("plan").empty()) {
    return FormPlanned(program, own, options, context);
  }
  if (!options.Get<std::string>("site").empty()) {
    return Invalid("a site is chosen for a plan, and there is none: plan=FILE");
  }
  if (context.costs == nullptr)
    return Invalid("needs costs: there are none in PassContext::costs");
  if (own.joined && !own.reductions) {
    return Invalid(
        "joined overlaps are of reductions, which reductions=false leaves out");
  }
  ASYRA_ASSIGN_OR_RETURN(int count, FormOverlaps(program, own, *context.costs));
  if (count > 0) return true;
  context.Remark(
      "form_overlaps: no collective gains by going together with what computes "
      "beside it");
  return false;
}

absl::StatusOr<bool> SplitOverlapsPass(Program& program, const PassOptions&,
                                       PassContext& context) {
  bool any = absl::c_any_of(program.ops,
                            [](const Op& op) { return IsOverlap(*op.def); });
  if (!any) {
    context.Remark("split_overlaps: there is none");
    return false;
  }
  ASYRA_ASSIGN_OR_RETURN(program, InlineOverlaps(program));
  return true;
}

}  // namespace asyra
