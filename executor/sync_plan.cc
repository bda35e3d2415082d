#include "executor/sync_plan.h"

#include <algorithm>

namespace asyra {
namespace {

// Returns those of `waits` that no other one and not `before` imply.
std::vector<int> Needed(const std::vector<int>& waits, int before,
                        const HappensBefore& order) {
  std::vector<int> needed;
  for (int wait : waits) {
    bool implied = before >= 0 && order.Finished(wait, before);
    for (int other : waits) implied |= order.Finished(wait, other);
    bool twice = std::find(needed.begin(), needed.end(), wait) != needed.end();
    if (!implied && !twice) needed.push_back(wait);
  }
  return needed;
}

}  // namespace

SyncPlan PlanSync(const Program& program, const HappensBefore& order,
                  const DefUse& def_use) {
  SyncPlan plan;
  plan.ops.resize(program.ops.size());
  bool unassigned = program.streams.empty();
  for (const Op& op : program.ops) unassigned |= op.stream == kNoStream;
  // The stream of ops without one comes first where there are such.
  int shift = unassigned ? 1 : 0;
  plan.last_on.assign(program.streams.size() + shift, -1);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    SyncPlan::Point& point = plan.ops[i];
    point.stream = op.stream == kNoStream ? 0 : op.stream + shift;
    std::vector<int> waits;
    for (int earlier : AwaitedOps(op, def_use)) {
      if (plan.ops[earlier].stream != point.stream) waits.push_back(earlier);
    }
    int& last = plan.last_on[point.stream];
    point.waits = Needed(waits, last, order);
    for (int wait : point.waits) plan.ops[wait].record = true;
    last = static_cast<int>(i);
  }
  return plan;
}

}  // namespace asyra
