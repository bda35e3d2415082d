// The places of a scheduled program where overlaps (ir/overlap.h) may be
// formed.
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

// Returns an op as part of a body, without the attributes of how it runs.
BodyOp BodyPartOf(const Op& op);

// Returns whether the simplest chunk plan of the site's order exists.
bool HasPlan(const Program& program, const OverlapSite& site);

// Returns the sites that have a chunk plan, no op in two of them. Their gain is
// not considered.
std::vector<OverlapSite> FindOverlapSites(const Program& program,
                                          const OverlapKinds& kinds);

}  // namespace asyra
