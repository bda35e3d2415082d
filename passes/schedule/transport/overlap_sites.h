// Where in a scheduled program overlaps (ir/overlap.h) may be formed.
#pragma once

#include <set>
#include <vector>

#include "ir/body.h"
#include "ir/plans/plan_templates.h"
#include "ir/program.h"

namespace asyra {

// Ops that become one.
struct OverlapSite {
  std::set<int> ops;  // that go
  int at = -1;        // one of them: where the overlap comes
  Body body;
  std::vector<ValueId> operands, results;
  PlanOrder order = PlanOrder::kOwnFirst;
};

struct OverlapKinds {
  bool gathers = true;     // in front of what reads them
  bool reductions = true;  // and exchanges, behind what they move
};

// An op as part of a body: how it runs is no longer said.
BodyOp BodyPartOf(const Op& op);

// Whether the simplest chunk plan of the site's order exists.
bool HasPlan(const Program& program, const OverlapSite& site);

// Those that have a chunk plan, no op in two of them. Whether they gain is not
// asked.
std::vector<OverlapSite> FindOverlapSites(const Program& program,
                                          const OverlapKinds& kinds);

}  // namespace asyra
