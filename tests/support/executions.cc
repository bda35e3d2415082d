#include "tests/support/executions.h"

#include <set>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "fmt/format.h"
#include "ir/happens_before.h"
#include "ir/printer.h"
#include "ir/support/check.h"

namespace asyra {
namespace {

constexpr size_t kMostStates = 2000000;

// Bytes between which no value begins or ends are one cell; each value outside
// of the arena has one of its own.
using Cells = std::vector<int>;

struct OpUseOfMemory {
  std::vector<int> waits_for;  // ops
  Cells reads, writes;
  std::vector<std::pair<int, ValueId>> expects;  // what a cell must hold
  int wait = -1;  // of a start, the first: until its end `reads` are in use
};

struct State {
  // By stream: ops that have ended, times two, plus one while the next runs.
  std::vector<int> progress;
  std::vector<ValueId> holds;  // by cell
  std::string Key() const {
    std::string key;
    for (int p : progress) key += fmt::format("{},", p);
    for (ValueId v : holds) key += fmt::format("{};", v);
    return key;
  }
};

class Executions {
 public:
  explicit Executions(const Program& program)
      : program_(program), streams_(program.streams.size()) {
    FindRoots();
    MakeCells();
    for (size_t i = 0; i < program.ops.size(); ++i) {
      const Op& op = program.ops[i];
      stream_of_[i] = static_cast<int>(op.stream);
      position_[i] = static_cast<int>(streams_[op.stream].size());
      streams_[op.stream].push_back(static_cast<int>(i));
    }
    for (size_t i = 0; i < program.ops.size(); ++i) MakeUse(i);
  }

  std::string Explore() {
    State begin{std::vector<int>(streams_.size(), 0),
                std::vector<ValueId>(num_cells_, kNoValue)};
    for (ValueId value : there_at_begin_) {
      for (int cell : cells_[value]) {
        if (begin.holds[cell] != kNoValue) {
          return fmt::format("%{} and %{} share bytes from the beginning",
                             Name(begin.holds[cell]), Name(value));
        }
        begin.holds[cell] = value;
      }
    }
    std::vector<State> open = {begin};
    absl::flat_hash_set<std::string> seen;
    while (!open.empty()) {
      State state = std::move(open.back());
      open.pop_back();
      if (!seen.insert(state.Key()).second) continue;
      ASYRA_CHECK(seen.size() < kMostStates);
      std::string hazard = Advance(state, &open);
      if (!hazard.empty()) return hazard;
    }
    return "";
  }

 private:
  const std::string& Name(ValueId value) const {
    return program_.value_name(value);
  }
  std::string Text(int op) const {
    return ToString(program_, program_.ops[op]);
  }
  Type Local(ValueId value) const {
    return program_.type(value).Local(program_.mesh);
  }

  void FindRoots() {
    size_t ops = program_.ops.size(), values = program_.values.size();
    stream_of_.assign(ops, -1);
    position_.assign(ops, -1);
    uses_.resize(ops);
    def_.assign(values, -1);
    for (size_t v = 0; v < values; ++v) root_.push_back(int(v));
    for (const Input& input : program_.inputs) {
      there_at_begin_.push_back(input.value);
    }
    for (size_t i = 0; i < ops; ++i) {
      const Op& op = program_.ops[i];
      for (ValueId value : op.results) {
        def_[value] = static_cast<int>(i);
        if (IsConstant(op)) there_at_begin_.push_back(value);
        if (op.def->is_view) root_[value] = root_[op.operands[0]];
      }
    }
    for (const Output& output : program_.outputs) {
      if (output.alias == kNoValue) continue;
      state_of_.emplace(root_[output.value], output.alias);
    }
  }

  void MakeCells() {
    std::set<int64_t> cuts;
    for (size_t v = 0; v < root_.size(); ++v) {
      int64_t begin = program_.values[v].offset;
      if (begin < 0) continue;
      cuts.insert(begin);
      cuts.insert(begin + Local(static_cast<ValueId>(v)).bytes());
    }
    num_cells_ = static_cast<int>(cuts.size());
    cells_.resize(root_.size());
    for (size_t v = 0; v < root_.size(); ++v) {
      auto value = static_cast<ValueId>(v);
      int64_t begin = program_.values[v].offset;
      if (root_[v] != value || begin < 0) continue;
      auto last = cuts.find(begin + Local(value).bytes());
      for (auto at = cuts.find(begin); at != last; ++at) {
        cells_[v].push_back(static_cast<int>(std::distance(cuts.begin(), at)));
      }
    }
    for (ValueId value : there_at_begin_) {
      if (program_.values[value].offset < 0) cells_[value] = {num_cells_++};
    }
    for (size_t v = 0; v < root_.size(); ++v) {
      auto value = static_cast<ValueId>(v);
      bool placed = program_.values[v].offset >= 0 || !cells_[v].empty();
      if (placed || root_[v] != value) continue;
      auto state = state_of_.find(value);
      ASYRA_CHECK(state != state_of_.end());
      cells_[v] = cells_[state->second];
    }
  }

  void MakeUse(size_t index) {
    const Op& op = program_.ops[index];
    OpUseOfMemory& use = uses_[index];
    auto wait_for = [&](ValueId value) {
      if (def_[value] >= 0) use.waits_for.push_back(def_[value]);
    };
    for (ValueId value : op.after) wait_for(value);
    for (ValueId value : op.operands) {
      if (op.start || op.def->is_wait) wait_for(value);
      if (op.def->is_wait && uses_[def_[value]].wait < 0) {
        uses_[def_[value]].wait = static_cast<int>(index);
      }
      for (int cell : cells_[root_[value]]) {
        use.reads.push_back(cell);
        use.expects.emplace_back(cell, root_[value]);
      }
    }
    if (op.def->is_view) return;  // counts as reading
    if (IsConstant(op)) return;   // only keeps its place
    for (ValueId value : op.results) {
      const Cells& cells = cells_[value];
      use.writes.insert(use.writes.end(), cells.begin(), cells.end());
    }
  }

  static bool Meet(const Cells& a, const Cells& b) {
    for (int cell : a) {
      if (std::find(b.begin(), b.end(), cell) != b.end()) return true;
    }
    return false;
  }

  bool Ended(const State& state, int op) const {
    return state.progress[stream_of_[op]] / 2 > position_[op];
  }
  bool Begun(const State& state, int op) const {
    return (state.progress[stream_of_[op]] + 1) / 2 > position_[op];
  }

  // Whether results may overwrite what they do of the op's own operands.
  bool OwnMemoryIsFine(const Op& op) const {
    for (size_t r = 0; r < op.results.size(); ++r) {
      const Cells& written = cells_[op.results[r]];
      for (size_t other = 0; other < r; ++other) {
        if (Meet(written, cells_[op.results[other]])) return false;
      }
      for (size_t k = 0; k < op.operands.size(); ++k) {
        const Cells& read = cells_[root_[op.operands[k]]];
        if (!Meet(written, read)) continue;
        if (!MayOverwrite(program_, op, k, r) || written != read ||
            Local(op.operands[k]) != Local(op.results[r])) {
          return false;
        }
      }
    }
    return true;
  }

  std::string CheckBegin(const State& state, int index) const {
    const OpUseOfMemory& use = uses_[index];
    for (auto [cell, value] : use.expects) {
      if (state.holds[cell] == value) continue;
      return fmt::format("{}: %{} is not there", Text(index), Name(value));
    }
    const Op& op = program_.ops[index];
    if (!op.def->is_view && !OwnMemoryIsFine(op)) {
      return Text(index) + ": overwrites its own operand";
    }
    for (size_t i = 0; i < uses_.size(); ++i) {
      int other = static_cast<int>(i);
      if (other == index || !Begun(state, other)) continue;
      const OpUseOfMemory& theirs = uses_[i];
      bool reads = !Ended(state, theirs.wait >= 0 ? theirs.wait : other);
      bool writes = !Ended(state, other);
      if ((reads && Meet(use.writes, theirs.reads)) ||
          (writes && (Meet(use.writes, theirs.writes) ||
                      Meet(use.reads, theirs.writes)))) {
        return fmt::format("{}: while {}", Text(index), Text(other));
      }
    }
    return "";
  }

  std::string CheckEnd(const State& state) const {
    auto intact = [&](ValueId value) {
      for (int cell : cells_[value]) {
        if (state.holds[cell] != value) return false;
      }
      return true;
    };
    for (const Output& output : program_.outputs) {
      if (!intact(root_[output.value])) {
        return fmt::format("output %{} is gone", Name(output.value));
      }
    }
    for (ValueId value : there_at_begin_) {
      if (intact(value) || IsData(value)) continue;
      // Else replaced by its own output, which has been found there.
      bool replaced = false;
      for (const Output& output : program_.outputs) {
        replaced |= output.alias == value &&
                    Meet(cells_[value], cells_[root_[output.value]]);
      }
      if (!replaced) return fmt::format("%{} is gone", Name(value));
    }
    return "";
  }

  bool IsData(ValueId value) const {
    for (const Input& input : program_.inputs) {
      if (input.value == value) return input.role == InputRole::kData;
    }
    return false;
  }

  // Adds the states that may come next.
  std::string Advance(const State& state, std::vector<State>* open) const {
    bool over = true;
    for (size_t s = 0; s < streams_.size(); ++s) {
      size_t ended = state.progress[s] / 2;
      if (ended == streams_[s].size()) continue;
      over = false;
      int op = streams_[s][ended];
      State next = state;
      ++next.progress[s];
      if (state.progress[s] % 2 == 1) {
        for (ValueId value : program_.ops[op].results) {
          if (program_.ops[op].def->is_view || IsConstant(program_.ops[op])) {
            continue;
          }
          for (int cell : cells_[value]) next.holds[cell] = value;
        }
      } else {
        bool ready = true;
        for (int earlier : uses_[op].waits_for) {
          ready &= Ended(state, earlier);
        }
        if (!ready) continue;
        std::string hazard = CheckBegin(state, op);
        if (!hazard.empty()) return hazard;
      }
      open->push_back(std::move(next));
    }
    return over ? CheckEnd(state) : "";
  }

  const Program& program_;
  std::vector<std::vector<int>> streams_;  // ops of each
  std::vector<int> stream_of_, position_;  // by op
  std::vector<OpUseOfMemory> uses_;        // by op
  std::vector<int> def_;                   // by value; -1: an input
  std::vector<ValueId> root_;              // of a view, what it looks at
  std::vector<Cells> cells_;               // by root
  std::vector<ValueId> there_at_begin_;
  absl::flat_hash_map<ValueId, ValueId> state_of_;  // by root of an output
  int num_cells_ = 0;
};

}  // namespace

std::string FindHazard(const Program& program) {
  return Executions(program).Explore();
}

}  // namespace asyra
