#include "passes/train/split_sums.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "ir/builder.h"
#include "ir/support/status.h"
#include "ir/training_names.h"
#include "passes/analysis/name_list.h"

namespace asyra {
namespace {

constexpr char kAt = '@';

class Splitter {
 public:
  Splitter(const Program& from, const SumAxes& axes)
      : from_(from),
        axes_(axes),
        builder_(Builder::Like(from)),
        map_(from.values.size(), kNoValue) {}

  absl::StatusOr<Program> Run() {
    FindStates();
    builder_.CopyInputs(from_, &map_);
    for (const Op& op : from_.ops) {
      ValueId state = StateOf(op);
      ASYRA_RETURN_IF_ERROR(state != kNoValue
                                ? AddOfFirst(op, state)
                                : builder_.Copy(from_, op, &map_));
    }
    builder_.CopyOutputs(from_, map_);
    return std::move(builder_).Finish();
  }

  int count() const { return static_cast<int>(states_.size()); }

 private:
  void FindStates() {
    DefUse def_use(from_);
    for (const Input& input : from_.inputs) {
      ValueId state = input.value;
      auto wanted = axes_.find(from_.value_name(state));
      if (wanted == axes_.end() || def_use.uses[state].size() != 1 ||
          from_.ops[def_use.uses[state][0]].def->name != "add") {
        continue;
      }
      AxisList& partial = from_.values[state].type.partial;
      AxisList missing;
      for (AxisId axis : wanted->second) {
        if (!Contains(partial, axis)) missing.push_back(axis);
      }
      if (missing.empty()) continue;
      partial.insert(partial.end(), missing.begin(), missing.end());
      std::sort(partial.begin(), partial.end());
      states_[state] = std::move(missing);
    }
  }

  ValueId StateOf(const Op& op) const {
    for (ValueId value : op.operands) {
      if (states_.contains(value)) return value;
    }
    return kNoValue;
  }

  // Exact, whatever the number of devices: what is not added is times zero.
  absl::Status AddOfFirst(const Op& add, ValueId state) {
    const AxisList& axes = states_[state];
    ValueId whole = add.operands[add.operands[0] == state ? 1 : 0];
    const std::string& name = from_.value_name(whole);
    Shape row = from_.type(whole).shape(), ones(row.size() + 1, 1);
    row.insert(row.begin(), 1);
    ones[0] = from_.mesh.size(axes);
    Tensor first(from_.type(whole).dtype, ones);
    first.Set(0, 1);
    ASYRA_ASSIGN_OR_RETURN(
        ValueId is_first,
        builder_.AddOne("shard", {builder_.Constant(first, name + ".first")},
                        {{"dim", int64_t{0}}, {"axes", axes}},
                        name + ".is_first"));
    ASYRA_ASSIGN_OR_RETURN(
        ValueId stacked,
        builder_.AddOne("reshape", {map_[whole]},
                        {{"shape", Ints(row.begin(), row.end())}},
                        name + ".row"));
    ASYRA_ASSIGN_OR_RETURN(
        ValueId own,
        builder_.AddOne("mul", {stacked, is_first}, {}, name + ".own"));
    ASYRA_ASSIGN_OR_RETURN(
        ValueId part,
        builder_.AddOne("reduce_sum", {own},
                        {{"dims", Ints{0}}, {"keep", false}}, name + ".part"));
    const std::string& sum = from_.value_name(add.results[0]);
    ASYRA_ASSIGN_OR_RETURN(
        map_[add.results[0]],
        builder_.AddOne("add", {map_[state], part}, {}, sum));
    return absl::OkStatus();
  }

  Program from_;
  const SumAxes& axes_;
  Builder builder_;
  std::vector<ValueId> map_;
  std::map<ValueId, AxisList> states_;
};

}  // namespace

absl::StatusOr<SumAxes> ReadSumAxes(const std::string& text, const Mesh& mesh) {
  SumAxes read;
  for (const std::string& state : NamesIn(text)) {
    size_t at = state.rfind(kAt);
    AxisList& axes = read[state.substr(0, at)];
    if (at == std::string::npos) continue;
    const std::vector<std::string> names =
        absl::StrSplit(state.substr(at + 1), ',');
    for (const std::string& name : names) {
      AxisId axis = mesh.Find(name);
      if (axis < 0) {
        return Invalid("{}: the mesh has no axis {}", state, name);
      }
      axes.push_back(axis);
    }
  }
  return read;
}

std::string SumAxesText(const Program& step, const Mesh& mesh) {
  std::vector<std::string> states;
  for (const Input& input : step.inputs) {
    std::string state = step.value_name(input.value);
    if (!IsAccumulated(state)) continue;
    std::vector<std::string> names;
    for (AxisId axis : step.type(input.value).partial) {
      if (mesh.Find(step.mesh.name(axis)) >= 0) {
        names.push_back(step.mesh.name(axis));
      }
    }
    if (!names.empty()) state += kAt + absl::StrJoin(names, ",");
    states.push_back(std::move(state));
  }
  return TextOfNames(states);
}

absl::StatusOr<int> SplitSums(Program& program, const SumAxes& axes) {
  if (axes.empty()) return 0;
  Splitter splitter(program, axes);
  ASYRA_ASSIGN_OR_RETURN(Program split, splitter.Run());
  if (splitter.count() > 0) program = std::move(split);
  return splitter.count();
}

}  // namespace asyra
