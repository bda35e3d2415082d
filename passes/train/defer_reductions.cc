#include "passes/train/defer_reductions.h"

#include <algorithm>
#include <map>

#include "absl/algorithm/container.h"
#include "ir/support/status.h"
#include "ir/training_names.h"
#include "passes/train/split_sums.h"

namespace asyra {
namespace {

class Deferrer {
 public:
  // `axes` null: wherever it can be.
  Deferrer(Program* program, const SumAxes* axes)
      : program_(*program),
        axes_(axes),
        def_use_(*program),
        gone_(program->ops.size()) {}

  // How many all_reduces were moved or dropped.
  int Run() {
    int count = 0;
    for (const Input& input : program_.inputs) {
      if (input.role == InputRole::kState &&
          IsAccumulated(program_.value_name(input.value)) &&
          program_.type(input.value).rank() > 0) {
        count += Defer(input.value);
      }
    }
    if (count > 0) Rebuild();
    return count;
  }

 private:
  // Those of `reduced` over which parts of the state are not to be kept, as the
  // other program has the sum there.
  AxisList SummedForEach(ValueId state, const AxisList& reduced) const {
    if (axes_ == nullptr) return {};
    auto wanted = axes_->find(program_.value_name(state));
    if (wanted == axes_->end()) return {};
    AxisList summed;
    for (AxisId axis : reduced) {
      if (!absl::c_linear_search(wanted->second, axis)) summed.push_back(axis);
    }
    return summed;
  }

  // Leaves the op a sum over `axes` alone.
  void SumOver(int reduce, const AxisList& axes) {
    Op& op = program_.ops[reduce];
    AxisList left;
    for (AxisId axis : program_.type(op.operands[0]).partial) {
      if (!absl::c_linear_search(axes, axis)) left.push_back(axis);
    }
    program_.values[op.results[0]].type.partial = left;
    op.attrs.Set("axes", axes);
  }

  bool Defer(ValueId state) {
    if (def_use_.uses[state].size() != 1 || def_use_.output_uses[state] > 0) {
      return false;
    }
    int add = def_use_.uses[state][0];
    if (program_.ops[add].def->name != "add") return false;
    ValueId sum = program_.ops[add].results[0];
    ValueId whole = program_.ops[add].operands[0] == state
                        ? program_.ops[add].operands[1]
                        : program_.ops[add].operands[0];
    int reshape = IsReadOnce(whole) ? ReshapeOf(whole) : -1;
    ValueId reduced = reshape < 0 ? whole : program_.ops[reshape].operands[0];
    int reduce = def_use_.def[reduced];
    if (reduce < 0 || !IsReduction(program_.ops[reduce]) ||
        !IsReadOnce(whole) || !IsReadOnce(reduced) || !IsOnlyKept(sum, state)) {
      return false;
    }
    const auto& over = program_.ops[reduce].attrs.Get<AxisList>("axes");
    AxisList each = SummedForEach(state, over);
    if (each.size() == over.size() ||
        (!each.empty() && !def_use_.uses[sum].empty())) {
      return false;
    }
    ValueId part = each.empty() ? program_.ops[reduce].operands[0] : reduced;
    if (each.empty()) gone_[reduce] = true;
    if (!each.empty()) SumOver(reduce, each);
    if (reshape >= 0) {
      program_.ops[reshape].operands = {part};
      program_.values[whole].type.partial = program_.type(part).partial;
      part = whole;
    }
    program_.values[state].type = program_.type(part);
    program_.ops[add].operands = {state, part};
    if (def_use_.uses[sum].empty()) {
      program_.values[sum].type = program_.type(part);
    } else {
      MoveBehind(reduce, add, state);
    }
    return true;
  }

  bool IsReadOnce(ValueId value) const {
    return def_use_.uses[value].size() == 1 && def_use_.output_uses[value] == 0;
  }

  // The op that makes it, where that is a reshape: as of a bias, which is
  // summed over leading dimensions first. Or -1.
  int ReshapeOf(ValueId value) const {
    int def = def_use_.def[value];
    return def >= 0 && program_.ops[def].def->name == "reshape" ? def : -1;
  }

  bool IsReduction(const Op& op) const {
    return op.def->collective == CollectiveKind::kAllReduce &&
           op.results.size() == 1 && op.stream == kNoStream &&
           program_.type(op.results[0]).partial.empty();
  }

  // Whether it leaves the program as the new value of the state alone.
  bool IsOnlyKept(ValueId sum, ValueId state) const {
    return std::all_of(program_.outputs.begin(), program_.outputs.end(),
                       [&](const Output& output) {
                         return output.value != sum || output.alias == state;
                       });
  }

  // Readers of the sum get it from the all_reduce, which comes after the `add`;
  // the state gets what a device has of it.
  void MoveBehind(int reduce, int add, ValueId state) {
    Op behind = program_.ops[reduce];
    ValueId sum = program_.ops[add].results[0], own = behind.results[0];
    program_.values[own].type = program_.type(state);
    program_.ops[add].results = {own};
    for (Output& output : program_.outputs) {
      if (output.alias == state) output.value = own;
    }
    behind.operands = {own};
    behind.results = {sum};
    behind_.emplace(add, std::move(behind));
  }

  void Rebuild() {
    std::vector<Op> ops;
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      if (!gone_[i]) ops.push_back(std::move(program_.ops[i]));
      auto found = behind_.find(static_cast<int>(i));
      if (found != behind_.end()) ops.push_back(std::move(found->second));
    }
    program_.ops = std::move(ops);
    program_.DropUnusedValues();
  }

  Program& program_;
  const SumAxes* axes_;
  DefUse def_use_;
  std::vector<bool> gone_;  // by op
  // All_reduces by the op after which they come.
  std::map<int, Op> behind_;
};

}  // namespace

absl::StatusOr<bool> DeferReductions(Program& program,
                                     const PassOptions& options,
                                     PassContext& context) {
  const auto& sums = options.Get<std::string>("sums");
  ASYRA_ASSIGN_OR_RETURN(SumAxes axes, ReadSumAxes(sums, program.mesh));
  int count = Deferrer(&program, sums.empty() ? nullptr : &axes).Run();
  ASYRA_ASSIGN_OR_RETURN(int split, SplitSums(program, axes));
  count += split;
  if (count == 0) return false;
  context.Remark("{} gradients are summed over devices once for all batches",
                 count);
  return true;
}

}  // namespace asyra
