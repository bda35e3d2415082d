#include "passes/train/defer_reductions.h"

#include <algorithm>
#include <map>

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

  // Moves or drops all_reduces and returns their number.
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
  // Axes of a reduction over which the state has parts.
  AxisList KeptAxes(ValueId state, const AxisList& axes) const {
    if (axes_ == nullptr) return axes;
    auto wanted = axes_->find(program_.value_name(state));
    if (wanted == axes_->end()) return axes;
    AxisList kept;
    for (AxisId axis : axes) {
      if (Contains(wanted->second, axis)) kept.push_back(axis);
    }
    return kept;
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
    // A gradient that is the same along some dimension is broadcast.
    if (program_.type(whole).dims != program_.type(state).dims) return false;
    if (reduce < 0 || !IsReduction(program_.ops[reduce]) ||
        !IsReadOnce(whole) || !IsReadOnce(reduced) || !IsOnlyKept(sum, state)) {
      return false;
    }
    const auto& axes = program_.ops[reduce].attrs.Get<AxisList>("axes");
    AxisList kept = KeptAxes(state, axes);
    if (kept.empty()) return false;
    ValueId part = kept == axes ? program_.ops[reduce].operands[0]
                                : ReduceOverOthers(reduce, kept);
    gone_[reduce] = true;
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

  // Splits a reduction: over the axes that are not `kept`, for each batch; what
  // it gives. The op itself reduces that over the others.
  ValueId ReduceOverOthers(int reduce, const AxisList& kept) {
    Op& op = program_.ops[reduce];
    AxisList others;
    for (AxisId axis : op.attrs.Get<AxisList>("axes")) {
      if (!Contains(kept, axis)) others.push_back(axis);
    }
    Value part = program_.values[op.operands[0]];
    part.name = program_.value_name(op.results[0]) + ".parts";
    AxisList& partial = part.type.partial;
    partial.erase(
        std::remove_if(partial.begin(), partial.end(),
                       [&](AxisId axis) { return Contains(others, axis); }),
        partial.end());
    auto value = static_cast<ValueId>(program_.values.size());
    program_.values.push_back(std::move(part));
    Op first = op;
    first.attrs.Set("axes", others);
    first.results = {value};
    op.attrs.Set("axes", kept);
    op.operands = {value};
    instead_.emplace(reduce, std::move(first));
    return value;
  }

  bool IsReadOnce(ValueId value) const {
    return def_use_.uses[value].size() == 1 && def_use_.output_uses[value] == 0;
  }

  // Returns the op that makes the value, if it is a reshape, as of a bias,
  // which is summed over leading dimensions first; else -1.
  int ReshapeOf(ValueId value) const {
    int def = def_use_.def[value];
    return def >= 0 && program_.ops[def].def->name == "reshape" ? def : -1;
  }

  bool IsReduction(const Op& op) const {
    return op.def->collective == CollectiveKind::kAllReduce &&
           op.results.size() == 1 && op.stream == kNoStream &&
           program_.type(op.results[0]).partial.empty();
  }

  // Returns whether it leaves the program as the new value of the state alone.
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
      auto split = instead_.find(static_cast<int>(i));
      if (split != instead_.end()) ops.push_back(std::move(split->second));
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
  // All_reduces by the op that they replace, and by the one after which they
  // come.
  std::map<int, Op> instead_, behind_;
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
