#include "passes/schedule/order/separate_phases.h"

#include <algorithm>
#include <vector>

#include "absl/algorithm/container.h"
#include "ir/happens_before.h"
#include "passes/schedule/order/reorder.h"
#include "passes/train/step_phase.h"

namespace asyra {
namespace {

class Separator {
 public:
  explicit Separator(Program& program)
      : program_(program), uses_(program), phases_(PhasesOf(program)) {}

  bool Run() {
    if (phases_.empty()) return false;
    bool changed = false;
    std::vector<ValueId> ends = EndsOfForward();
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      if (!Begins(static_cast<int>(i))) continue;
      auto& after = program_.ops[i].after;
      for (ValueId end : ends) {
        if (absl::c_linear_search(after, end)) continue;
        after.push_back(end);
        changed = true;
      }
    }
    if (!changed) return false;
    std::vector<int> order = SerialOrder(program_);
    absl::c_stable_partition(order, [&](int op) { return IsForward(op); });
    ApplyOrder(program_, order);
    return true;
  }

 private:
  bool IsForward(int op) const { return phases_[op] == StepPhase::kForward; }

  // All other ops of forward are before one of these, but for constants.
  std::vector<ValueId> EndsOfForward() const {
    std::vector<ValueId> ends;
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      if (!IsForward(static_cast<int>(i)) || IsConstant(program_.ops[i])) {
        continue;
      }
      bool goes_on =
          absl::c_any_of(program_.ops[i].results, [&](ValueId result) {
            return absl::c_any_of(uses_.uses[result],
                                  [&](int use) { return IsForward(use); });
          });
      if (!goes_on) ends.push_back(program_.ops[i].results[0]);
    }
    return ends;
  }

  // Constants are available from the beginning of the step.
  bool WaitsForForward(int op) const {
    return !IsForward(op) && !IsConstant(program_.ops[op]);
  }

  // Returns whether it waits for forward and nothing that it reads does.
  bool Begins(int i) const {
    const Op& op = program_.ops[i];
    auto is_behind = [&](ValueId value) {
      return uses_.def[value] >= 0 && WaitsForForward(uses_.def[value]);
    };
    return WaitsForForward(i) && !absl::c_any_of(op.operands, is_behind) &&
           !absl::c_any_of(op.after, is_behind);
  }

  Program& program_;
  const DefUse uses_;
  const std::vector<StepPhase> phases_;
};

}  // namespace

bool SeparatePhases(Program& program) { return Separator(program).Run(); }

absl::StatusOr<bool> SeparatePhasesPass(Program& program, const PassOptions&,
                                        PassContext& context) {
  if (PhasesOf(program).empty()) {
    context.Remark("separate_phases: the program is no training step");
    return false;
  }
  return SeparatePhases(program);
}

}  // namespace asyra
