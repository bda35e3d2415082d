#include "ir/happens_before.h"

namespace asyra {

std::vector<ValueId> AwaitedValues(const Op& op) {
  std::vector<ValueId> values(op.after.begin(), op.after.end());
  if (op.start || op.def->is_wait) {
    values.insert(values.end(), op.operands.begin(), op.operands.end());
  }
  return values;
}

std::vector<int> AwaitedOps(const Op& op, const DefUse& def_use) {
  std::vector<int> ops;
  for (ValueId value : AwaitedValues(op)) {
    if (def_use.def[value] >= 0) ops.push_back(def_use.def[value]);
  }
  return ops;
}

int HappensBefore::Slot(const Op& op) const {
  return op.stream == kNoStream ? num_streams_ - 1 : op.stream;
}

HappensBefore::HappensBefore(const Program& program, const DefUse& def_use)
    : num_streams_(static_cast<int>(program.streams.size()) + 1),
      ops_on_(num_streams_),
      finished_(program.ops.size() * num_streams_, 0) {
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    int32_t* mine = &finished_[i * num_streams_];
    auto finish = [&](int earlier) {
      const int32_t* theirs = &finished_[size_t(earlier) * num_streams_];
      for (int s = 0; s < num_streams_; ++s) {
        mine[s] = std::max(mine[s], theirs[s]);
      }
      int32_t& own = mine[slot_[earlier]];
      own = std::max(own, position_[earlier] + 1);
    };
    int slot = Slot(op);
    if (!ops_on_[slot].empty()) finish(ops_on_[slot].back());
    for (int earlier : AwaitedOps(op, def_use)) finish(earlier);
    slot_.push_back(slot);
    position_.push_back(static_cast<int32_t>(ops_on_[slot].size()));
    ops_on_[slot].push_back(static_cast<int>(i));
    is_constant_.push_back(IsConstant(op));
  }
}

bool HappensBefore::Finished(int a, int b) const {
  if (a < 0) return true;
  if (b < 0) return false;
  size_t row = static_cast<size_t>(b) * num_streams_;
  return finished_[row + slot_[a]] > position_[a];
}

void HappensBefore::Add(int op, Frontier* frontier) const {
  if (op < 0) return;
  int32_t& last = frontier->last_[slot_[op]];
  last = std::max(last, position_[op]);
}

int HappensBefore::Unfinished(const Frontier& frontier, int b) const {
  for (int s = 0; s < num_streams_; ++s) {
    int32_t last = frontier.last_[s];
    if (last < 0) continue;
    size_t row = static_cast<size_t>(b) * num_streams_;
    if (b < 0 || finished_[row + s] <= last) return ops_on_[s][last];
  }
  return -1;
}

}  // namespace asyra
