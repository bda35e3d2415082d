#include "executor/comm/communicator.h"

#include "executor/comm/plan_link.h"
#include "ir/support/status.h"

namespace asyra {

absl::StatusOr<std::unique_ptr<PlanLink>> Communicator::LinkPlan(
    const PlanUse& use) {
  return Unimplemented("{}: {} carries out no chunk plans", use.label, name());
}

absl::StatusOr<std::unique_ptr<Kernel>> Communicator::PrepareOneKernel(
    const CollectiveUse& use) {
  return Unimplemented("{}: {} has no such kernel", use.label, name());
}

}  // namespace asyra
