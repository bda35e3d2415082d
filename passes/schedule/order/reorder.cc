#include "passes/schedule/order/reorder.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_join.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "ir/support/units.h"
#include "passes/analysis/lanes.h"

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

  // Issues the lanes in turn, in segments or op by op.
  std::vector<int> Run(bool segments) {
    std::vector<size_t> next(queues_.size(), 0);
    bool more = true;
    while (more) {
      more = false;
      for (size_t lane = 0; lane < queues_.size(); ++lane) {
        IssueSegment(queues_[lane], &next[lane], segments);
        more |= next[lane] < queues_[lane].size();
      }
    }
    // Ops of no lane that no op of a lane needs.
    for (size_t i = 0; i < program_.ops.size(); ++i) Emit(static_cast<int>(i));
    return std::move(order_);
  }

 private:
  // Issues the ops from the wait that opens the segment up to the next one.
  void IssueSegment(const std::vector<int>& queue, size_t* next,
                    bool segments) {
    for (bool first = true; *next < queue.size(); first = false) {
      int op = queue[*next];
      if (!first && (!segments || program_.ops[op].def->is_wait)) return;
      Emit(op);
      ++*next;
    }
  }

  // Emits an op after what it depends on.
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
  return RoundRobin(program).Run(/*segments=*/true);
}

void ApplyOrder(Program& program, const std::vector<int>& order) {
  ASYRA_CHECK(order.size() == program.ops.size());
  std::vector<Op> ops;
  ops.reserve(order.size());
  for (int op : order) ops.push_back(std::move(program.ops[op]));
  program.ops = std::move(ops);
}

std::vector<int> OperatorRoundRobin(const Program& program) {
  return RoundRobin(program).Run(/*segments=*/false);
}

std::vector<int> SerialOrder(const Program& program) {
  std::vector<int> order(program.ops.size());
  std::iota(order.begin(), order.end(), 0);
  return order;
}

std::vector<std::string> Schedulers() {
  return {"search", "segrr", "round_robin", "serial"};
}

absl::StatusOr<std::vector<int>> OrderBy(std::string_view scheduler,
                                         const Program& program,
                                         const CostModel* costs,
                                         const OrderSearchOptions& search) {
  if (scheduler == "serial") return SerialOrder(program);
  if (scheduler == "segrr") return SegmentedRoundRobin(program);
  if (scheduler == "round_robin") return OperatorRoundRobin(program);
  if (scheduler != "search") {
    return Invalid("unknown scheduler {}, known are {}", scheduler,
                   absl::StrJoin(Schedulers(), ", "));
  }
  if (costs == nullptr)
    return Invalid("search needs costs: there are none in PassContext::costs");
  CostedProgram costed(program, *costs);
  OrderSearchResult found =
      SearchOrder(costed,
                  {{"serial", SerialOrder(program)},
                   {"segrr", SegmentedRoundRobin(program)}},
                  search);
  if (!found.fits) {
    return absl::ResourceExhaustedError(fmt::format(
        "no order found needs at most {} for values, the least is {}",
        BytesText(search.memory_bytes), BytesText(found.least_peak_bytes)));
  }
  return std::move(found.best.order);
}

absl::StatusOr<bool> Reorder(Program& program, const PassOptions& options,
                             PassContext& context) {
  OrderSearchOptions search;
  int64_t steps = options.Int("steps");
  if (steps < 1 || steps > kMostSearchSteps) {
    return Invalid("steps is {}, not 1 to {}", steps, kMostSearchSteps);
  }
  search.steps = static_cast<int>(steps);
  ASYRA_ASSIGN_OR_RETURN(std::vector<int> order,
                         OrderBy(options.Get<std::string>("scheduler"), program,
                                 context.costs, search));
  bool changed = !std::is_sorted(order.begin(), order.end());
  if (!changed) context.Remark("reorder: one lane, or no wait to hide");
  ApplyOrder(program, order);
  return changed;
}

}  // namespace asyra
