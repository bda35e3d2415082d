#include "passes/reorder.h"

#include "ir/support/check.h"
#include "ir/support/status.h"
#include "passes/lanes.h"

namespace asyra {
namespace {

class RoundRobin {
 public:
  explicit RoundRobin(const Program& program)
      : program_(program),
        lanes_(program),
        uses_(program),
        emitted_(program.ops.size(), false),
        queues_(lanes_.count) {
    for (size_t i = 0; i < program.ops.size(); ++i) {
      if (lanes_.of_op[i] != kNoLane) {
        queues_[lanes_.of_op[i]].push_back(static_cast<int>(i));
      }
    }
  }

  std::vector<int> Run() {
    std::vector<size_t> next(queues_.size(), 0);
    bool more = true;
    while (more) {
      more = false;
      for (size_t lane = 0; lane < queues_.size(); ++lane) {
        IssueSegment(queues_[lane], &next[lane]);
        more |= next[lane] < queues_[lane].size();
      }
    }
    // What belongs to no lane and nothing in a lane has needed.
    for (size_t i = 0; i < program_.ops.size(); ++i) Emit(static_cast<int>(i));
    return std::move(order_);
  }

 private:
  // From the wait that opens the segment up to the next one.
  void IssueSegment(const std::vector<int>& queue, size_t* next) {
    for (bool first = true; *next < queue.size(); first = false) {
      int op = queue[*next];
      if (program_.ops[op].def->is_wait && !first) return;
      Emit(op);
      ++*next;
    }
  }

  // After what it depends on.
  void Emit(int op) {
    if (emitted_[op]) return;
    emitted_[op] = true;
    for (ValueId value : program_.ops[op].operands) {
      if (uses_.def[value] >= 0) Emit(uses_.def[value]);
    }
    for (ValueId value : program_.ops[op].after) {
      if (uses_.def[value] >= 0) Emit(uses_.def[value]);
    }
    order_.push_back(op);
  }

  const Program& program_;
  Lanes lanes_;
  DefUse uses_;
  std::vector<bool> emitted_;
  std::vector<std::vector<int>> queues_;  // by lane, in program order
  std::vector<int> order_;
};

}  // namespace

std::vector<int> SegmentedRoundRobin(const Program& program) {
  return RoundRobin(program).Run();
}

void ApplyOrder(Program& program, const std::vector<int>& order) {
  ASYRA_CHECK(order.size() == program.ops.size());
  std::vector<Op> ops;
  ops.reserve(order.size());
  for (int op : order) ops.push_back(std::move(program.ops[op]));
  program.ops = std::move(ops);
}

absl::StatusOr<bool> Reorder(Program& program, const PassOptions& options,
                             PassContext& context) {
  const std::string& scheduler = options.Get<std::string>("scheduler");
  if (scheduler == "serial") return false;
  if (scheduler != "segrr") {
    return Invalid("unknown scheduler {}, known are segrr and serial",
                   scheduler);
  }
  std::vector<int> order = SegmentedRoundRobin(program);
  bool changed = false;
  for (size_t i = 0; i < order.size(); ++i) {
    changed |= order[i] != static_cast<int>(i);
  }
  if (!changed) context.Remark("reorder: one lane, or no wait to hide");
  ApplyOrder(program, order);
  return changed;
}

}  // namespace asyra
