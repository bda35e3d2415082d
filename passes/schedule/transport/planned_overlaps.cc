#include "passes/schedule/transport/planned_overlaps.h"

#include "absl/algorithm/container.h"
#include "ir/overlap.h"
#include "ir/plans/overlap_shape.h"
#include "ir/plans/plan_text.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

std::string NamesOf(const Program& program, const OverlapSite& site) {
  std::string names;
  for (ValueId value : site.results) {
    names += (names.empty() ? "%" : ", %") + program.value_name(value);
  }
  return names;
}

bool Gives(const Program& program, const OverlapSite& site,
           const std::string& name) {
  return absl::c_any_of(site.results, [&](ValueId value) {
    return program.value_name(value) == name;
  });
}

// The attributes of the site's overlap with this plan.
absl::StatusOr<AttrMap> AttrsOf(const Program& program, const OverlapSite& site,
                                const std::string& text) {
  std::vector<Type> operands;
  for (ValueId value : site.operands) operands.push_back(program.type(value));
  ASYRA_ASSIGN_OR_RETURN(GroupBody group,
                         GroupBodyOf(site.body, operands, program.mesh));
  ASYRA_ASSIGN_OR_RETURN(PlanRef plan, ParsePlan(text, group));
  AttrMap attrs = {{"body", BodyRef(site.body)}};
  ASYRA_RETURN_IF_ERROR(CompleteAttrs(*FindOp("overlap"), &attrs));
  SetPlan(std::move(plan), &attrs);
  return attrs;
}

}  // namespace

absl::StatusOr<std::vector<FormedOverlap>> OverlapsOfPlan(
    const Program& program, std::vector<OverlapSite> sites, const OwnPlan& plan,
    PassContext* context) {
  if (sites.empty()) {
    return Invalid("plan {}: the program has no site for it", plan.file);
  }
  if (!plan.site.empty()) {
    std::string names;
    for (const OverlapSite& site : sites) {
      names += (names.empty() ? "" : ", ") + NamesOf(program, site);
    }
    std::erase_if(sites, [&](const OverlapSite& site) {
      return !Gives(program, site, plan.site);
    });
    if (sites.empty()) {
      return Invalid("plan {}: no site gives %{}, there are those of {}",
                     plan.file, plan.site, names);
    }
  }
  std::vector<FormedOverlap> formed;
  std::vector<std::string> refused;
  for (OverlapSite& site : sites) {
    absl::StatusOr<AttrMap> attrs = AttrsOf(program, site, plan.text);
    if (attrs.ok()) {
      formed.push_back({std::move(site), *std::move(attrs)});
      continue;
    }
    refused.push_back(fmt::format("{}: {}", NamesOf(program, site),
                                  MessageOf(attrs.status())));
  }
  if (formed.empty()) {
    return Invalid("plan {} fits none of {} sites; {}", plan.file,
                   refused.size(), refused[0]);
  }
  for (const std::string& why : refused) {
    context->Remark("form_overlaps: plan {} does not fit {}", plan.file, why);
  }
  return formed;
}

}  // namespace asyra
