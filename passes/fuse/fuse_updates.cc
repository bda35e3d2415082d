#include "passes/fuse/fuse_updates.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "ir/happens_before.h"
#include "ir/multi_adamw.h"
#include "ir/printer.h"
#include "simulator/replay/simulate.h"

namespace asyra {
namespace {

// Indices of adamw's operands after those of its parameter.
constexpr int kRate = kAdamWOfParam, kStep = kRate + 1, kScale = kStep + 1;

// Updates that one kernel can make: stream, rate, step, scale, attributes.
using Kind = std::tuple<StreamId, ValueId, ValueId, ValueId, std::string>;

class UpdateFuser {
 public:
  UpdateFuser(Program* program, const CostModel* costs)
      : program_(*program),
        costs_(costs),
        def_use_(*program),
        order_(*program, def_use_),
        is_waited_for_(program->values.size(), false),
        is_gone_(program->ops.size(), false) {
    for (const Op& op : program->ops) {
      for (ValueId value : op.after) is_waited_for_[value] = true;
    }
  }

  int Run() {
    std::map<Kind, std::vector<int>> kinds;
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      const Op& op = program_.ops[i];
      if (CanWait(op)) kinds[KindOf(op)].push_back(static_cast<int>(i));
    }
    int fused = 0;
    for (const auto& [kind, updates] : kinds) {
      if (updates.size() < 2) continue;
      Join(updates);
      fused += static_cast<int>(updates.size());
    }
    if (fused > 0) Drop(is_gone_, &program_);
    return fused;
  }

 private:
  bool CanWait(const Op& op) const {
    if (op.def->name != "adamw" || op.operands.size() != kScale + 1) {
      return false;
    }
    for (ValueId result : op.results) {
      if (!def_use_.uses[result].empty()) return false;
      if (is_waited_for_[result]) return false;
    }
    // The other operands are those of all updates that are joined.
    for (int k = 0; k < kAdamWOfParam; ++k) {
      if (!IsThereBefore(op.operands[k], op.operands[kScale])) return false;
    }
    return true;
  }

  // Returns whether the value is available before `later` is computed.
  bool IsThereBefore(ValueId value, ValueId later) const {
    return order_.Computed(def_use_.def[value], def_use_.def[later]);
  }

  Kind KindOf(const Op& op) const {
    return {op.stream, op.operands[kRate], op.operands[kStep],
            op.operands[kScale],
            AttrsToString(*op.def, op.attrs, program_.OperandTypes(op),
                          program_.mesh)};
  }

  // Ops keep their positions until all kinds are joined.
  void Join(const std::vector<int>& updates) {
    Op joined = Joined(updates);
    for (int update : updates) is_gone_[update] = true;
    int place = BestOf(PlacesOf(updates, joined), joined);
    program_.ops[place] = std::move(joined);
    is_gone_[place] = false;
  }

  // Returns the first of the places with which the step is shortest.
  int BestOf(const std::vector<int>& places, const Op& joined) const {
    if (costs_ == nullptr || places.size() == 1) return places[0];
    int best = 0;
    double least_us = std::numeric_limits<double>::infinity();
    for (int place : places) {
      double us = Simulate(With(joined, place), *costs_).makespan_us;
      if (us >= least_us) continue;
      least_us = us;
      best = place;
    }
    return best;
  }

  // Returns a place for each row of updates with no op but updates of their
  // stream in between, if all that `joined` waits for is in front; the last
  // first.
  std::vector<int> PlacesOf(const std::vector<int>& updates,
                            const Op& joined) const {
    int ready = -1;
    for (ValueId value : joined.after) {
      ready = std::max(ready, def_use_.def[value]);
    }
    std::vector<int> places = {updates.back()};
    for (size_t k = updates.size() - 1; k > 0; --k) {
      int place = updates[k - 1];
      if (place < ready) break;
      if (HasOtherOps(place, updates[k], joined.stream))
        places.push_back(place);
    }
    return places;
  }

  bool HasOtherOps(int begin, int end, StreamId stream) const {
    return std::any_of(
        program_.ops.begin() + begin + 1, program_.ops.begin() + end,
        [&](const Op& op) { return op.stream == stream && !CanWait(op); });
  }

  Program With(const Op& joined, int place) const {
    Program program = program_;
    std::vector<bool> is_gone = is_gone_;
    program.ops[place] = joined;
    is_gone[place] = false;
    Drop(is_gone, &program);
    return program;
  }

  Op Joined(const std::vector<int>& updates) const {
    const Op& last = program_.ops[updates.back()];
    Op joined = {.def = FindOp("multi_adamw"),
                 .operands = {last.operands[kRate], last.operands[kStep],
                              last.operands[kScale]},
                 .attrs = last.attrs,
                 .stream = last.stream};
    for (int update : updates) {
      const Op& op = program_.ops[update];
      joined.operands.insert(joined.operands.end(), op.operands.begin(),
                             op.operands.begin() + kAdamWOfParam);
      joined.results.insert(joined.results.end(), op.results.begin(),
                            op.results.end());
      joined.after.insert(joined.after.end(), op.after.begin(), op.after.end());
    }
    std::sort(joined.after.begin(), joined.after.end());
    joined.after.erase(std::unique(joined.after.begin(), joined.after.end()),
                       joined.after.end());
    return joined;
  }

  static void Drop(const std::vector<bool>& is_gone, Program* program) {
    size_t kept = 0;
    for (size_t i = 0; i < program->ops.size(); ++i) {
      if (is_gone[i]) continue;
      if (kept != i) program->ops[kept] = std::move(program->ops[i]);
      ++kept;
    }
    program->ops.resize(kept);
  }

  Program& program_;
  const CostModel* costs_;
  DefUse def_use_;
  HappensBefore order_;
  std::vector<bool> is_waited_for_;  // by value
  std::vector<bool> is_gone_;        // by op: part of a joint one
};

}  // namespace

int FuseUpdates(Program* program, const CostModel* costs) {
  return UpdateFuser(program, costs).Run();
}

}  // namespace asyra
