#include "passes/schedule/order/hold_collectives.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "ir/support/status.h"
#include "passes/analysis/op_classes.h"
#include "simulator/cost/cost_model.h"

namespace asyra {
namespace {

class Holder {
 public:
  Holder(const Program& program, const CostModel& costs)
      : program_(program),
        uses_(program),
        op_costs_(EstimateCosts(program, costs)),
        is_input_(program.values.size(), false),
        start_us_(program.ops.size(), 0),
        chain_(program.ops.size(), -1),
        held_(program.ops.size()),
        moved_(program.ops.size()),
        waits_(program.ops.size(), false) {
    for (const Input& input : program.inputs) is_input_[input.value] = true;
    for (size_t i = 0; i < program.ops.size(); ++i) {
      for (ValueId operand : program.ops[i].operands) {
        int def = uses_.def[operand];
        if (def < 0 || EndUs(def) <= start_us_[i]) continue;
        start_us_[i] = EndUs(def);
        chain_[i] = def;
      }
    }
  }

  // Returns the time of computation of one layer: per op of the most frequent
  // class of matmul.
  double LayerUs() const {
    std::vector<int> classes = OpClasses(program_);
    std::vector<int> members(program_.ops.size(), 0);
    double sum_us = 0;
    int most = 1;
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      if (program_.ops[i].is_collective()) continue;
      sum_us += op_costs_[i].time_us;
      if (program_.ops[i].def->name == "matmul") {
        most = std::max(most, ++members[classes[i]]);
      }
    }
    return sum_us / most;
  }

  // Holds collectives and returns their number.
  int Hold(double window_us) {
    window_us_ = window_us;
    int count = 0;
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      if (!program_.ops[i].start || !Grows(static_cast<int>(i))) continue;
      int reader = FirstReader(static_cast<int>(i));
      if (reader < 0) continue;
      int after = ChainBefore(reader, start_us_[reader] - window_us);
      bool held = after >= 0;
      if (!held) after = ChainBefore(reader, start_us_[reader] / 2);
      // It must wait for something that its operands do not depend on anyway.
      if (after < 0 || EndUs(after) <= start_us_[i]) continue;
      (held ? held_ : moved_)[after].push_back(static_cast<int>(i));
      waits_[i] = true;
      count += held;
    }
    return count;
  }

  // Returns the ops in an order in which held ops come after what they wait
  // for, and waits that free memory no more than the window behind the
  // collective.
  std::vector<Op> Ordered() {
    LeaveWhatReadsHeld();
    std::vector<Op> ops;
    emitted_.assign(program_.ops.size(), false);
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      EmitDoneWaits(&ops);
      if (!waits_[i]) Emit(static_cast<int>(i), &ops);
    }
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      Emit(static_cast<int>(i), &ops);
    }
    return ops;
  }

 private:
  double EndUs(int op) const { return start_us_[op] + op_costs_[op].time_us; }

  // Returns whether more is alive after the op than before it.
  bool Grows(int i) const {
    const Op& op = program_.ops[i];
    int64_t made = 0, freed = 0;
    for (ValueId result : op.results) made += BytesOf(result);
    for (ValueId operand : op.operands) {
      bool stays = is_input_[operand] || uses_.uses[operand].size() > 1;
      if (!stays) freed += BytesOf(operand);
    }
    return made > freed;
  }

  int64_t BytesOf(ValueId value) const {
    return LocalBytes(program_.type(value), program_.mesh);
  }

  bool IsFree(int op) const { return op_costs_[op].is_free(); }

  // Returns the first reader of its results, through waits and views.
  int FirstReader(int i) const {
    int first = -1;
    for (ValueId result : program_.ops[i].results) {
      for (int reader : uses_.uses[result]) {
        int real = IsFree(reader) ? FirstReader(reader) : reader;
        if (real >= 0 && (first < 0 || real < first)) first = real;
      }
    }
    return first;
  }

  // Returns the last op of computation on the longest way to `op` that ends by
  // then.
  int ChainBefore(int op, double by_us) const {
    for (op = chain_[op]; op >= 0; op = chain_[op]) {
      bool computes = !IsFree(op) && !program_.ops[op].start;
      if (computes && EndUs(op) <= by_us) return op;
    }
    return -1;
  }

  // Waits and views of what is held are emitted when they are needed.
  void LeaveWhatReadsHeld() {
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      if (!IsFree(static_cast<int>(i))) continue;
      waits_[i] = waits_[i] ||
                  absl::c_any_of(program_.ops[i].operands, [&](ValueId value) {
                    return uses_.def[value] >= 0 && waits_[uses_.def[value]];
                  });
    }
  }

  void Emit(int i, std::vector<Op>* ops) {
    if (emitted_[i]) return;
    emitted_[i] = true;
    for (ValueId operand : program_.ops[i].operands) {
      if (uses_.def[operand] >= 0) Emit(uses_.def[operand], ops);
    }
    for (ValueId value : program_.ops[i].after) {
      if (uses_.def[value] >= 0) Emit(uses_.def[value], ops);
    }
    ops->push_back(program_.ops[i]);
    Passes(i);
    for (int moved : moved_[i]) Emit(moved, ops);
    for (int held : held_[i]) {
      if (emitted_[held]) continue;
      size_t at = ops->size();
      Emit(held, ops);
      for (; at < ops->size(); ++at) {
        if ((*ops)[at].results[0] != program_.ops[held].results[0]) continue;
        (*ops)[at].after.push_back(program_.ops[i].results[0]);
      }
    }
  }

  // Adds up the time of computation so far, in program order.
  void Passes(int i) {
    const Op& op = program_.ops[i];
    if (!op.start) {
      now_us_ += op_costs_[i].time_us;
      return;
    }
    int wait = uses_.FirstWait(op);
    bool frees = absl::c_any_of(op.operands, [&](ValueId operand) {
      return !is_input_[operand] && uses_.uses[operand].size() == 1;
    });
    if (wait < 0 || !frees) return;
    done_.emplace(now_us_ + op_costs_[i].time_us + window_us_, wait);
  }

  void EmitDoneWaits(std::vector<Op>* ops) {
    while (!done_.empty() && done_.top().first <= now_us_) {
      int wait = done_.top().second;
      done_.pop();
      Emit(wait, ops);
    }
  }

  const Program& program_;
  const DefUse uses_;
  const std::vector<OpCost> op_costs_;
  std::vector<bool> is_input_;    // by value
  std::vector<double> start_us_;  // by op, at the earliest
  std::vector<int> chain_;  // by op, what it waits for longest; -1: nothing
  // Ops that come behind an op in program order, by op: those that wait for it,
  // and those that could start with the step.
  std::vector<std::vector<int>> held_, moved_;
  std::vector<bool> waits_;  // is held, or is free and reads what is
  std::vector<bool> emitted_;
  double window_us_ = 0, now_us_ = 0;
  // Waits, by when they are emitted at the latest; the first on top.
  using Wait = std::pair<double, int>;
  std::priority_queue<Wait, std::vector<Wait>, std::greater<>> done_;
};

}  // namespace

int HoldCollectives(Program& program, const CostModel& costs, double layers) {
  Holder holder(program, costs);
  int held = holder.Hold(layers * holder.LayerUs());
  program.ops = holder.Ordered();
  return held;
}

absl::StatusOr<bool> HoldCollectivesPass(Program& program,
                                         const PassOptions& options,
                                         PassContext& context) {
  if (context.costs == nullptr)
    return Invalid("needs costs: there are none in PassContext::costs");
  double layers = options.Float("layers");
  if (layers < 0)
    return Invalid("layers is {}, it must not be negative", layers);
  int held = HoldCollectives(program, *context.costs, layers);
  if (held == 0) {
    context.Remark("hold_collectives: none could start long before it is read");
  }
  return true;
}

}  // namespace asyra
