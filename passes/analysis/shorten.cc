#include "passes/analysis/shorten.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "passes/analysis/op_classes.h"
#include "passes/analysis/repeats.h"

namespace asyra {
namespace {

// Stretches [from, to) of a repeat that are removed.
struct Removed {
  Repeat repeat;
  int from = 0, to = 0;
  bool backwards = false;  // it mirrors another: the last stretch is layer 0

  int begin() const { return repeat.begin + repeat.period * from; }
  int end() const { return repeat.begin + repeat.period * to; }
  // Returns the op of a removed stretch in the stretch that represents it: the
  // last layer kept before the removed ones.
  int Kept(int op) const {
    int stretch = backwards ? to : from - 1;
    return repeat.begin + repeat.period * stretch +
           (op - repeat.begin) % repeat.period;
  }
};

// Chooses the part of each repeat that is removed: the layers after the first
// `layers` that it and all that mirror it have.
std::vector<Removed> ChooseRemoved(const std::vector<Repeat>& repeats,
                                   int layers) {
  std::vector<Removed> removed;
  for (size_t r = 0; r < repeats.size(); ++r) {
    if (repeats[r].mirror_of >= 0) continue;
    int begin = 0, end = repeats[r].count;
    std::vector<Repeat> mirrors;
    for (const Repeat& repeat : repeats) {
      if (repeat.mirror_of != static_cast<int>(r)) continue;
      begin = std::max(begin, repeat.mirrored - repeat.count + 1);
      end = std::min(end, repeat.mirrored + 1);
      mirrors.push_back(repeat);
    }
    int from = begin + layers;
    if (from >= end) continue;
    removed.push_back({repeats[r], from, end});
    for (const Repeat& repeat : mirrors) {
      removed.push_back({repeat, repeat.mirrored - end + 1,
                         repeat.mirrored - from + 1, true});
    }
  }
  return removed;
}

class Cutter {
 public:
  Cutter(const Program& program, std::vector<Removed> removed)
      : from_(program),
        removed_(std::move(removed)),
        uses_(program),
        instead_(program.values.size(), kNoValue),
        resident_(program.values.size(), false),
        gone_(program.ops.size(), false) {
    for (const Input& input : program.inputs) {
      resident_[input.value] = input.role != InputRole::kData;
    }
    mirrored_ = std::any_of(removed_.begin(), removed_.end(),
                            [](const Removed& r) { return r.backwards; });
  }

  // Removes the layers and returns whether the rest is a program.
  bool Run() {
    for (const Removed& removed : removed_) Remove(removed);
    if (!mirrored_ && ReadElsewhere()) return false;
    if (mirrored_) RemoveTwins();
    RemoveDead();
    return !mirrored_ || InOrder();
  }

  Program Result() const {
    Program result = from_;
    result.ops.clear();
    for (size_t i = 0; i < from_.ops.size(); ++i) {
      if (gone_[i]) continue;
      Op op = from_.ops[i];
      for (size_t k = 0; k < op.operands.size(); ++k) {
        op.operands[k] = OperandOf(static_cast<int>(i), k);
      }
      result.ops.push_back(std::move(op));
    }
    result.outputs.clear();
    for (const Output& output : from_.outputs) {
      if (!IsGone(output.value)) {
        result.outputs.push_back(output);
      } else if (output.alias == kNoValue && IsOfLast(output.value)) {
        result.outputs.push_back(
            {instead_[output.value], kNoValue, from_.output_name(output)});
      }
    }
    KeepOldStates(&result);
    result.DropUnusedValues();
    return result;
  }

  // Views share the buffer of their operand.
  int64_t CutBytes() const {
    if (!mirrored_) return 0;
    std::vector<int> last(from_.values.size(), -1);
    for (size_t i = from_.ops.size(); i-- > 0;) {
      const Op& op = from_.ops[i];
      for (ValueId value : op.operands) {
        last[value] = std::max(last[value], static_cast<int>(i));
      }
      if (op.def->is_view) {
        last[op.operands[0]] =
            std::max(last[op.operands[0]], last[op.results[0]]);
      }
    }
    int64_t most = 0;
    for (const Removed& removed : removed_) {
      for (int at : {removed.repeat.begin, removed.repeat.end()}) {
        int64_t bytes = 0;
        for (int i = 0; i < at; ++i) {
          if (!gone_[i] || from_.ops[i].def->is_view) continue;
          for (ValueId value : from_.ops[i].results) {
            if (last[value] < at) continue;
            bytes += LocalBytes(from_.type(value), from_.mesh);
          }
        }
        most = std::max(most, bytes);
      }
    }
    return most;
  }

 private:
  // States that nothing replaces any more are weights, which stay as well. No
  // weight is partial: what is, as a sum of gradients of which each device has
  // its own part, stays a state and is handed on as it is.
  static void KeepOldStates(Program* program) {
    std::vector<bool> replaced(program->values.size(), false);
    for (const Output& output : program->outputs) {
      if (output.alias != kNoValue) replaced[output.alias] = true;
    }
    for (Input& input : program->inputs) {
      ValueId value = input.value;
      if (!IsUpdated(input) || replaced[value]) continue;
      if (program->type(value).partial.empty()) {
        input.role = InputRole::kWeight;
      } else {
        program->outputs.push_back({value, value, ""});
      }
    }
  }

  bool IsGone(ValueId value) const {
    int def = uses_.def[value];
    return def >= 0 && gone_[def];
  }

  const Removed* RemovedAt(int op) const {
    for (const Removed& removed : removed_) {
      if (op >= removed.begin() && op < removed.end()) return &removed;
    }
    return nullptr;
  }

  void Remove(const Removed& removed) {
    for (int op = removed.begin(); op < removed.end(); ++op) {
      gone_[op] = true;
      const Op& kept = from_.ops[removed.Kept(op)];
      for (size_t r = 0; r < kept.results.size(); ++r) {
        instead_[from_.ops[op].results[r]] = kept.results[r];
      }
    }
  }

  // Returns whether a value was made in the last stretch removed of its repeat.
  bool IsOfLast(ValueId value) const {
    const Removed* removed = RemovedAt(uses_.def[value]);
    return removed != nullptr &&
           uses_.def[value] >= removed->end() - removed->repeat.period;
  }

  bool ReadElsewhere() const {
    for (size_t i = 0; i < from_.ops.size(); ++i) {
      if (gone_[i]) continue;
      for (ValueId value : from_.ops[i].operands) {
        if (IsGone(value) && !IsOfLast(value)) return true;
      }
    }
    return false;
  }

  // Returns the value that a remaining op reads in the place of operand k.
  // After the removed stretches of its own repeat it is the value that these
  // read from before them.
  ValueId OperandOf(int op, size_t k) const {
    ValueId value = from_.ops[op].operands[k];
    while (IsGone(value) && instead_[value] != kNoValue) {
      const Removed* own = RemovedAt(uses_.def[value]);
      bool is_next =
          own != nullptr && op >= own->end() && op < own->repeat.end();
      if (is_next) {
        op -= own->repeat.period * (own->to - own->from);
        value = from_.ops[op].operands[k];
      } else {
        value = instead_[value];
      }
    }
    return value;
  }

  bool InRepeat(int op) const {
    return std::any_of(
        removed_.begin(), removed_.end(), [&](const Removed& removed) {
          return op >= removed.repeat.begin && op < removed.repeat.end();
        });
  }

  // Class and operands of an op; of weights and states only that they are.
  std::vector<int> KeyOf(int op, const std::vector<int>& classes) const {
    std::vector<int> key = {classes[op]};
    for (size_t k = 0; k < from_.ops[op].operands.size(); ++k) {
      ValueId value = OperandOf(op, k);
      key.push_back(resident_[value] ? kNoValue : value);
    }
    return key;
  }

  bool ReadsGone(const Op& op) const {
    return std::any_of(op.operands.begin(), op.operands.end(),
                       [&](ValueId value) { return IsGone(value); });
  }

  // Ops outside of layers that would do what one of a kept layer does, on the
  // same values and with inputs of the same roles, go: that one stays.
  void RemoveTwins() {
    std::vector<int> classes = OpClasses(from_);
    absl::flat_hash_map<std::vector<int>, std::vector<int>> kept;
    absl::flat_hash_map<std::vector<int>, size_t> removed;
    for (size_t i = 0; i < from_.ops.size(); ++i) {
      int op = static_cast<int>(i);
      if (InRepeat(op) || ReadsGone(from_.ops[i])) continue;
      kept[KeyOf(op, classes)].push_back(op);
    }
    for (size_t i = 0; i < from_.ops.size(); ++i) {
      int op = static_cast<int>(i);
      if (InRepeat(op) || !ReadsGone(from_.ops[i])) continue;
      std::vector<int> key = KeyOf(op, classes);
      auto found = kept.find(key);
      if (found == kept.end()) continue;
      const std::vector<int>& ops = found->second;
      const Op& twin = from_.ops[ops[removed[key]++ % ops.size()]];
      gone_[i] = true;
      for (size_t r = 0; r < twin.results.size(); ++r) {
        instead_[from_.ops[i].results[r]] = twin.results[r];
      }
    }
  }

  // Returns whether the values read instead are made before their readers.
  bool InOrder() const {
    for (size_t i = 0; i < from_.ops.size(); ++i) {
      for (size_t k = 0; !gone_[i] && k < from_.ops[i].operands.size(); ++k) {
        int op = static_cast<int>(i);
        ValueId value = OperandOf(op, k);
        if (IsGone(value) || uses_.def[value] >= op) return false;
      }
    }
    return true;
  }

  // Removes ops whose results were read by removed ops only.
  void RemoveDead() {
    std::vector<bool> read(from_.values.size(), false);
    for (const Output& output : from_.outputs) {
      bool gone = IsGone(output.value);
      if (!gone) read[output.value] = true;
      if (gone && IsOfLast(output.value)) read[instead_[output.value]] = true;
    }
    for (size_t i = from_.ops.size(); i-- > 0;) {
      const Op& op = from_.ops[i];
      if (gone_[i]) continue;
      bool live = false, had_reader = false;
      for (ValueId value : op.results) {
        live |= read[value];
        had_reader |= !uses_.uses[value].empty();
      }
      if (!live && had_reader && !op.def->is_barrier) {
        gone_[i] = true;
        continue;
      }
      for (size_t k = 0; k < op.operands.size(); ++k) {
        read[OperandOf(static_cast<int>(i), k)] = true;
      }
    }
  }

  const Program& from_;
  const std::vector<Removed> removed_;
  bool mirrored_ = false;
  DefUse uses_;
  std::vector<ValueId> instead_;  // by value that is gone
  std::vector<bool> resident_;    // by value: weights and states
  std::vector<bool> gone_;        // by op
};

}  // namespace

Program Shorten(const Program& program, int layers, int64_t* cut_bytes) {
  if (cut_bytes != nullptr) *cut_bytes = 0;
  Cutter cutter(program, ChooseRemoved(FindRepeats(program), layers));
  if (!cutter.Run()) return program;
  if (cut_bytes != nullptr) *cut_bytes = cutter.CutBytes();
  return cutter.Result();
}

}  // namespace asyra
