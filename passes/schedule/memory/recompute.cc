#include "passes/schedule/memory/recompute.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "ir/builder.h"
#include "ir/happens_before.h"
#include "ir/support/status.h"
#include "ir/support/units.h"
#include "passes/analysis/name_list.h"

namespace asyra {
namespace {

constexpr char kAgain[] = ".again";

class Recomputer {
 public:
  Recomputer(const Program& from, const Stash& stash,
             const std::set<int>& dropped)
      : from_(from),
        stash_(stash),
        dropped_(dropped),
        def_use_(from),
        builder_(Builder::Like(from)),
        map_(from.values.size(), kNoValue),
        again_(from.values.size(), kNoValue) {}

  absl::StatusOr<Program> Run() {
    builder_.CopyInputs(from_, &map_);
    FindLate();
    for (size_t i = 0; i < from_.ops.size(); ++i) {
      if (late_[i]) continue;
      bool forward = stash_.IsForward(static_cast<int>(i));
      ASYRA_RETURN_IF_ERROR(forward ? CopyForward(static_cast<int>(i))
                                    : CopyAfterForward(from_.ops[i]));
    }
    for (const Output& output : from_.outputs) {
      ASYRA_RETURN_IF_ERROR(Make(output.value));
      builder_.Output(map_[output.value],
                      output.alias == kNoValue ? kNoValue : map_[output.alias],
                      from_.output_name(output));
    }
    return std::move(builder_).Finish();
  }

 private:
  // Finds dropped ops that read inputs only, and views of what they make.
  void FindLate() {
    late_.assign(from_.ops.size(), false);
    for (size_t i = 0; i < from_.ops.size(); ++i) {
      const Op& op = from_.ops[i];
      if (dropped_.contains(static_cast<int>(i))) {
        late_[i] = absl::c_all_of(op.operands, [&](ValueId operand) {
          return def_use_.def[operand] < 0;
        });
      } else if (op.def->is_view && stash_.IsForward(static_cast<int>(i))) {
        int source = def_use_.def[op.operands[0]];
        late_[i] = source >= 0 && late_[source];
      }
    }
  }

  absl::Status CopyForward(int i) {
    const Op& op = from_.ops[i];
    for (ValueId operand : op.operands) {
      ASYRA_RETURN_IF_ERROR(Make(operand));
    }
    return builder_.Copy(from_, op, &map_);
  }

  // Makes a late value, if it was not made yet.
  absl::Status Make(ValueId value) {
    if (map_[value] != kNoValue) return absl::OkStatus();
    return CopyForward(def_use_.def[value]);
  }

  absl::Status CopyAfterForward(const Op& op) {
    Op copy = op;
    for (ValueId& operand : copy.operands) {
      ASYRA_ASSIGN_OR_RETURN(operand, AfterForward(operand));
    }
    std::vector<std::string> names;
    for (ValueId result : op.results) {
      names.push_back(from_.value_name(result));
    }
    ASYRA_ASSIGN_OR_RETURN(std::vector<ValueId> results,
                           builder_.Insert(std::move(copy), names));
    for (size_t r = 0; r < results.size(); ++r)
      map_[op.results[r]] = results[r];
    return absl::OkStatus();
  }

  // Returns whether an op of forward keeps its results for what comes after.
  bool Keeps(int op) const {
    return stash_.IsBetweenLayers(op) || IsConstant(from_.ops[op]) ||
           (stash_.IsKept(op) && !dropped_.contains(op));
  }

  // Returns the value that an op after forward reads instead of `value`: its
  // own copy of what is not kept.
  absl::StatusOr<ValueId> AfterForward(ValueId value) {
    int producer = def_use_.def[value];
    if (producer < 0 || !stash_.IsForward(producer)) return map_[value];
    if (again_[value] != kNoValue) return again_[value];
    const Op& op = from_.ops[producer];
    if (op.def->is_view) {
      ASYRA_ASSIGN_OR_RETURN(ValueId of, AfterForward(op.operands[0]));
      if (of == map_[op.operands[0]]) return map_[value];
    } else if (Keeps(producer)) {
      return map_[value];
    }
    ASYRA_RETURN_IF_ERROR(CopyAgain(op));
    return again_[value];
  }

  absl::Status CopyAgain(const Op& op) {
    Op copy = op;
    for (ValueId& operand : copy.operands) {
      ASYRA_ASSIGN_OR_RETURN(operand, AfterForward(operand));
    }
    std::vector<std::string> names;
    for (ValueId result : op.results) {
      names.push_back(from_.value_name(result) + kAgain);
    }
    ASYRA_ASSIGN_OR_RETURN(std::vector<ValueId> results,
                           builder_.Insert(std::move(copy), names));
    for (size_t r = 0; r < results.size(); ++r) {
      again_[op.results[r]] = results[r];
    }
    return absl::OkStatus();
  }

  const Program& from_;
  const Stash& stash_;
  const std::set<int>& dropped_;
  DefUse def_use_;
  Builder builder_;
  std::vector<bool> late_;      // by op
  std::vector<ValueId> map_;    // from a value of `from_` to one of the new
  std::vector<ValueId> again_;  // the same, computed again
};

}  // namespace

absl::StatusOr<Program> RecomputeOps(const Program& program, const Stash& stash,
                                     const std::set<int>& dropped) {
  return Recomputer(program, stash, dropped).Run();
}

bool IsComputedAgain(const Program& program, const Op& op) {
  return absl::StrContains(program.value_name(op.results[0]), kAgain);
}

std::set<int> OpsOfClasses(const Stash& stash,
                           const std::vector<std::string>& names) {
  std::set<int> ops;
  for (const StashClass& one : stash.classes()) {
    if (absl::c_linear_search(names, one.name)) {
      ops.insert(one.ops.begin(), one.ops.end());
    }
  }
  return ops;
}

absl::StatusOr<std::vector<std::string>> ReadStashNames(const std::string& text,
                                                        const Stash& stash) {
  constexpr size_t kShown = 12;
  std::vector<std::string> known;
  for (const StashClass& one : stash.classes()) known.push_back(one.name);
  if (text == "all") return known;
  std::vector<std::string> names = NamesIn(text);
  for (const std::string& name : names) {
    if (absl::c_linear_search(known, name)) continue;
    size_t shown = std::min(kShown, known.size());
    known.resize(shown);
    return Invalid(
        "backward reads nothing called '{}' of forward that could be "
        "computed again; the largest of what it reads: {}",
        name, shown == 0 ? "nothing" : TextOfNames(known));
  }
  return names;
}

absl::StatusOr<bool> Recompute(Program& program, const PassOptions& options,
                               PassContext& context) {
  Stash stash(program);
  ASYRA_ASSIGN_OR_RETURN(
      std::vector<std::string> names,
      ReadStashNames(options.Get<std::string>("values"), stash));
  std::set<int> dropped = OpsOfClasses(stash, names);
  if (dropped.empty()) {
    context.Remark("recompute: no values are named");
    return false;
  }
  int64_t bytes = 0;
  for (const StashClass& one : stash.classes()) {
    if (absl::c_linear_search(names, one.name)) bytes += one.bytes;
  }
  ASYRA_ASSIGN_OR_RETURN(program, RecomputeOps(program, stash, dropped));
  context.Remark("recompute: {} of {}, {} in all, not kept for backward",
                 dropped.size(), absl::StrJoin(names, ", "), BytesText(bytes));
  return true;
}

}  // namespace asyra
