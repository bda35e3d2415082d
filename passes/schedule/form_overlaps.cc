#include "passes/schedule/form_overlaps.h"

#include <optional>

#include "absl/algorithm/container.h"
#include "ir/happens_before.h"
#include "ir/overlap.h"
#include "ir/support/status.h"
#include "passes/schedule/overlap_choice.h"
#include "passes/schedule/overlap_sites.h"

namespace asyra {
namespace {

// The overlap in the program's values, after what it reads on other streams. A
// collective that was held back for a better order is so no longer.
Op OpOf(const Program& program, const DefUse& def_use, const OverlapSite& site,
        AttrMap attrs) {
  Op op{.def = FindOp("overlap")};
  op.attrs = std::move(attrs);
  op.operands.assign(site.operands.begin(), site.operands.end());
  op.results.assign(site.results.begin(), site.results.end());
  for (int part : site.ops) {
    if (!program.ops[part].start && !program.ops[part].def->is_wait) {
      op.stream = program.ops[part].stream;
    }
  }
  auto add = [&](ValueId value) {
    int def = def_use.def[value];
    if (def < 0 || program.ops[def].stream == op.stream ||
        IsConstant(program.ops[def]) ||
        absl::c_linear_search(op.after, value)) {
      return;
    }
    op.after.push_back(value);
  };
  for (ValueId value : op.operands) add(value);
  return op;
}

}  // namespace

absl::StatusOr<int> FormOverlaps(Program& program,
                                 const OverlapOptions& options,
                                 const CostModel& costs) {
  std::vector<OverlapSite> sites = FindOverlapSites(
      program, {.gathers = options.gathers, .reductions = options.reductions});
  OverlapChoice choice(program, options.always, costs);
  DefUse def_use(program);
  std::vector<bool> gone(program.ops.size(), false);
  std::vector<std::optional<Op>> formed(program.ops.size());
  int count = 0;
  for (const OverlapSite& site : sites) {
    std::optional<AttrMap> attrs = choice.Choose(site);
    if (!attrs.has_value()) continue;
    for (int op : site.ops) gone[op] = true;
    formed[site.at] = OpOf(program, def_use, site, *std::move(attrs));
    ++count;
  }
  if (count == 0) return 0;
  std::vector<Op> ops;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    if (formed[i].has_value()) ops.push_back(*std::move(formed[i]));
    if (!gone[i]) ops.push_back(std::move(program.ops[i]));
  }
  program.ops = std::move(ops);
  program.DropUnusedValues();
  return count;
}

absl::StatusOr<bool> FormOverlapsPass(Program& program,
                                      const PassOptions& options,
                                      PassContext& context) {
  if (context.costs == nullptr) return Invalid("needs costs: give --machine");
  OverlapOptions own{.gathers = options.Bool("gathers"),
                     .reductions = options.Bool("reductions"),
                     .always = options.Bool("always")};
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
