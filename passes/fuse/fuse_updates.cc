#include "passes/fuse/fuse_updates.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "ir/happens_before.h"
#include "ir/multi_adamw.h"
#include "ir/printer.h"

namespace asyra {
namespace {

// Of adamw, after those of its parameter.
constexpr int kRate = kAdamWOfParam, kStep = kRate + 1, kScale = kStep + 1;

// Updates that one kernel can make: stream, rate, step, scale, attributes.
using Kind = std::tuple<StreamId, ValueId, ValueId, ValueId, std::string>;

class UpdateFuser {
 public:
  explicit UpdateFuser(Program* program)
      : program_(*program),
        def_use_(*program),
        order_(*program, def_use_),
        is_waited_for_(program->values.size(), false) {
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
    std::vector<bool> is_gone(program_.ops.size(), false);
    for (const auto& [kind, updates] : kinds) {
      if (updates.size() < 2) continue;
      program_.ops[updates.back()] = Joined(updates);
      for (size_t k = 0; k + 1 < updates.size(); ++k)
        is_gone[updates[k]] = true;
      fused += static_cast<int>(updates.size());
    }
    if (fused > 0) Drop(is_gone);
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

  // Whether the value is there before `later` is computed.
  bool IsThereBefore(ValueId value, ValueId later) const {
    return order_.Computed(def_use_.def[value], def_use_.def[later]);
  }

  Kind KindOf(const Op& op) const {
    return {op.stream, op.operands[kRate], op.operands[kStep],
            op.operands[kScale],
            AttrsToString(*op.def, op.attrs, program_.OperandTypes(op),
                          program_.mesh)};
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

  void Drop(const std::vector<bool>& is_gone) {
    size_t kept = 0;
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      if (is_gone[i]) continue;
      if (kept != i) program_.ops[kept] = std::move(program_.ops[i]);
      ++kept;
    }
    program_.ops.resize(kept);
  }

  Program& program_;
  DefUse def_use_;
  HappensBefore order_;
  std::vector<bool> is_waited_for_;  // by value
};

}  // namespace

int FuseUpdates(Program* program) { return UpdateFuser(program).Run(); }

}  // namespace asyra
