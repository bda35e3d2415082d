#include "passes/train/store_in_halves.h"

#include <map>
#include <set>

#include "absl/algorithm/container.h"
#include "absl/strings/str_split.h"
#include "fmt/ranges.h"
#include "ir/halves.h"
#include "ir/happens_before.h"
#include "ir/multi_adamw.h"
#include "ir/printer.h"
#include "ir/support/status.h"
#include "passes/analysis/reach.h"

namespace asyra {
namespace {

// The index of the scale among adamw's operands.
constexpr size_t kScale = kAdamWOfParam + kAdamWShared - 1;

class Storer {
 public:
  explicit Storer(Program* program) : program_(*program), def_use_(*program) {}

  // Stores the params that the program updates, and returns their number.
  int StoreUpdated() {
    int stored = 0;
    for (const Input& input : program_.inputs) {
      if (input.role != InputRole::kParam) continue;
      int update = UpdateOf(input.value);
      if (update < 0 || !CanBeStored(input.value, update)) continue;
      Store(input.value, update);
      ++stored;
    }
    DropCasts();
    return stored;
  }

  // Errors: as StoreInHalves.
  absl::StatusOr<int> StoreNamed(const std::set<std::string>& names) {
    int stored = 0;
    for (const Input& input : program_.inputs) {
      if (!names.contains(program_.value_name(input.value))) continue;
      for (int use : def_use_.uses[input.value]) {
        if (IsCast(use) || IsMoveToCasts(use)) continue;
        return Invalid(
            "%{} is stored in halves in the training step: {} reads it "
            "otherwise",
            program_.value_name(input.value),
            ToString(program_, program_.ops[use]));
      }
      Store(input.value, -1);
      ++stored;
    }
    DropCasts();
    return stored;
  }

 private:
  // Casts that MoveHalf has left without a reader go, and views come.
  void DropCasts() {
    if (gone_.empty()) return;
    std::vector<Op> ops;
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      auto view = views_.find(static_cast<int>(i));
      if (view != views_.end()) ops.push_back(std::move(view->second));
      if (!gone_.contains(static_cast<int>(i))) {
        ops.push_back(std::move(program_.ops[i]));
      }
    }
    for (Op& op : ops) {
      for (ValueId& value : op.operands) {
        auto same = same_as_.find(value);
        if (same != same_as_.end()) value = same->second;
      }
    }
    program_.ops = std::move(ops);
    program_.DropUnusedValues();
  }

  // Returns whether the op is a cast to bf16, and no output.
  bool IsCast(int i) const {
    const Op& op = program_.ops[i];
    return op.def->name == "cast" &&
           op.attrs.Get<DType>("to") == DType::kBF16 &&
           def_use_.output_uses[op.results[0]] == 0;
  }
  // Moves one value that only casts read, directly or after further moves.
  bool IsMoveToCasts(int i) const {
    const Op& op = program_.ops[i];
    bool moves = op.def->collective == CollectiveKind::kAllGather ||
                 op.def->name == "shard";
    if (!moves || op.results.size() != 1 || op.start ||
        def_use_.output_uses[op.results[0]] > 0) {
      return false;
    }
    const auto& uses = def_use_.uses[op.results[0]];
    return !uses.empty() && absl::c_all_of(uses, [&](int use) {
      return IsCast(use) || IsMoveToCasts(use);
    });
  }

  // Returns the adamw whose param it is, if its result is the new param and
  // nothing else; else -1.
  int UpdateOf(ValueId param) const {
    if (program_.type(param).dtype != DType::kF32) return -1;
    for (int use : def_use_.uses[param]) {
      const Op& op = program_.ops[use];
      if (op.def->name != "adamw" || op.operands[0] != param) continue;
      ValueId next = op.results[0];
      bool replaces = def_use_.uses[next].empty() &&
                      def_use_.output_uses[next] == 1 && Replaces(next, param);
      return replaces ? use : -1;
    }
    return -1;
  }
  bool Replaces(ValueId next, ValueId param) const {
    for (const Output& output : program_.outputs) {
      if (output.value == next) return output.alias == param;
    }
    return false;
  }

  bool CanBeStored(ValueId param, int update) {
    const Op& adamw = program_.ops[update];
    if (def_use_.output_uses[param] > 0) return false;
    if (adamw.operands.size() <= kScale) return false;
    for (size_t k = 1; k < adamw.operands.size(); ++k) {
      if (adamw.operands[k] == param) return false;
    }
    const std::vector<bool>& before = Before(adamw.operands[kScale]);
    for (int use : def_use_.uses[param]) {
      if (use == update) continue;
      if (IsMoveToCasts(use) && before[use]) continue;
      if (!IsCast(use)) return false;
      for (int reader : def_use_.uses[program_.ops[use].results[0]]) {
        if (!AllBefore(reader, before)) return false;
      }
    }
    return true;
  }

  // Returns whether the op, and all readers of it if it is a view, are done
  // before.
  bool AllBefore(int op, const std::vector<bool>& before) const {
    if (!program_.ops[op].def->is_view) return before[op];
    ValueId view = program_.ops[op].results[0];
    if (def_use_.output_uses[view] > 0) return false;
    for (int reader : def_use_.uses[view]) {
      if (!AllBefore(reader, before)) return false;
    }
    return true;
  }

  const std::vector<bool>& Before(ValueId value) {
    auto [found, is_new] = before_.try_emplace(value);
    if (is_new) {
      std::vector<bool> needed(program_.values.size());
      needed[value] = true;
      found->second = Ancestors(program_, std::move(needed));
    }
    return found->second;
  }

  void Store(ValueId param, int update) {
    ValueId half = kNoValue;
    for (int use : def_use_.uses[param]) {
      Op& op = program_.ops[use];
      if (use == update) {
        op.attrs.Set(kInHalves, true);
      } else if (IsCast(use)) {
        op.def = FindOp(kUpperHalf);
        op.attrs = {};
      } else {
        if (half == kNoValue) half = HalfBefore(use, param);
        op.operands[0] = half;
        MoveHalf(use);
      }
    }
  }

  // A new value: the upper half, before op `i`.
  ValueId HalfBefore(int i, ValueId param) {
    std::string name = program_.value_name(param) + ".upper";
    while (program_.FindValue(name) != kNoValue) name += ".half";
    Type type = program_.type(param);
    type.dtype = DType::kBF16;
    auto half = static_cast<ValueId>(program_.values.size());
    program_.values.push_back({name, type});
    views_[i] = {.def = FindOp(kUpperHalf),
                 .operands = {param},
                 .results = {half},
                 .stream = program_.ops[i].stream};
    return half;
  }

  // The op, which got a half, gives one, and so do those behind it; casts of
  // its result are that result.
  void MoveHalf(int i) {
    ValueId moved = program_.ops[i].results[0];
    program_.values[moved].type.dtype = DType::kBF16;
    for (int use : def_use_.uses[moved]) {
      if (!IsCast(use)) {
        MoveHalf(use);
        continue;
      }
      gone_.insert(use);
      same_as_[program_.ops[use].results[0]] = moved;
    }
  }

  Program& program_;
  DefUse def_use_;
  std::map<ValueId, std::vector<bool>> before_;  // ops, by value
  std::map<int, Op> views_;                      // by the op they go before
  std::set<int> gone_;                           // casts
  std::map<ValueId, ValueId> same_as_;           // results of casts
};

}  // namespace

absl::StatusOr<bool> StoreInHalves(Program& program, const PassOptions& options,
                                   PassContext& context) {
  const auto& params = options.Get<std::string>("params");
  Storer storer(&program);
  if (!params.empty()) {
    std::set<std::string> names = absl::StrSplit(params, ';');
    ASYRA_ASSIGN_OR_RETURN(int stored, storer.StoreNamed(names));
    return stored > 0;
  }
  int stored = storer.StoreUpdated();
  if (stored > 0) {
    context.Remark("{} params are read as bf16 where they are stored", stored);
  }
  return stored > 0;
}

std::string HalvesText(const Program& program) {
  std::vector<bool> in_halves = ValuesInHalves(program);
  std::vector<std::string> names;
  for (const Input& input : program.inputs) {
    if (in_halves[input.value]) {
      names.push_back(program.value_name(input.value));
    }
  }
  return fmt::format("{}", fmt::join(names, ";"));
}

}  // namespace asyra
