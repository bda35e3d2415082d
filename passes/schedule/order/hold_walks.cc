#include "passes/schedule/order/hold_walks.h"

#include <map>
#include <queue>
#include <set>
#include <vector>

#include "absl/algorithm/container.h"
#include "ir/happens_before.h"
#include "ir/verify/walk_flow.h"

namespace asyra {
namespace {

class WalkHolder {
 public:
  explicit WalkHolder(Program& program)
      : program_(program), uses_(program), walks_(FollowWalks(program)) {}

  bool Hold() {
    FindRounds();
    bool any = false;
    for (const auto& [root, rounds] : walked_) {
      // Two shards may both be there.
      if (rounds.size() > 2) any = HoldOne(rounds) || any;
    }
    return any;
  }

  // Returns the ops in program order as far as `after` allows; none where there
  // is no such order.
  std::vector<Op> Ordered() const {
    size_t count = program_.ops.size();
    std::vector<std::vector<int>> next(count);
    std::vector<int> missing(count);
    auto add = [&](ValueId value, int to) {
      int from = uses_.def[value];
      if (from < 0) return;
      next[from].push_back(to);
      ++missing[to];
    };
    for (size_t i = 0; i < count; ++i) {
      for (ValueId value : program_.ops[i].operands) add(value, i);
      for (ValueId value : program_.ops[i].after) add(value, i);
    }
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;
    for (size_t i = 0; i < count; ++i) {
      if (missing[i] == 0) ready.push(static_cast<int>(i));
    }
    std::vector<Op> ops;
    while (!ready.empty()) {
      int op = ready.top();
      ready.pop();
      ops.push_back(program_.ops[op]);
      for (int later : next[op]) {
        if (--missing[later] == 0) ready.push(later);
      }
    }
    if (ops.size() < count) ops.clear();
    return ops;
  }

 private:
  // By shift: the attentions that see the shard.
  using Rounds = std::map<int64_t, std::vector<int>>;

  void FindRounds() {
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      const Op& op = program_.ops[i];
      if (op.def->name != "attention" || !HasKeyShard(op)) continue;
      if (MergeOf(static_cast<int>(i)) < 0) continue;
      walked_[walks_[op.operands[1]].root][op.attrs.Int("shift")].push_back(
          static_cast<int>(i));
    }
  }

  // Returns the op that merges a part with one other, or -1.
  int MergeOf(int part) const {
    for (int use : uses_.uses[program_.ops[part].results[0]]) {
      const Op& op = program_.ops[use];
      if (op.def->name == "attention_merge" && op.operands.size() == 4) {
        return use;
      }
    }
    return -1;
  }

  // Returns the shift that fetches an operand, or -1.
  int FetchOf(ValueId value) const {
    int op = uses_.def[value];
    while (op >= 0 &&
           program_.ops[op].def->collective != CollectiveKind::kShift) {
      if (program_.ops[op].operands.size() != 1) return -1;
      op = uses_.def[program_.ops[op].operands[0]];
    }
    return op;
  }

  void After(int op, int before) {
    auto& after = program_.ops[op].after;
    ValueId value = program_.ops[before].results[0];
    if (!absl::c_linear_search(after, value)) after.push_back(value);
  }

  bool HoldOne(const Rounds& rounds) {
    std::vector<Op> old = program_.ops;
    std::set<int> seen;
    int before = -1, last = -1, last_but_one = -1;  // attentions
    for (const auto& [shift, parts] : rounds) {
      for (int part : parts) {
        for (int k : {1, 2}) {
          int fetch = FetchOf(program_.ops[part].operands[k]);
          if (fetch >= 0 && last_but_one >= 0) After(fetch, last_but_one);
        }
        if (before >= 0) After(part, MergedBy(before, seen));
        seen.insert(part);
        before = part;
      }
      last_but_one = last;
      last = parts.back();
    }
    if (!Ordered().empty()) return true;
    program_.ops = std::move(old);
    return false;
  }

  // Returns the merge of a part, or the part where it is merged with a later
  // one.
  int MergedBy(int part, const std::set<int>& seen) const {
    int merge = MergeOf(part);
    for (ValueId operand : program_.ops[merge].operands) {
      int from = uses_.def[operand];
      bool is_part = from >= 0 && HasKeyShard(program_.ops[from]);
      if (is_part && !seen.contains(from)) return part;
    }
    return merge;
  }

  Program& program_;
  const DefUse uses_;
  const std::vector<Walk> walks_;
  std::map<ValueId, Rounds> walked_;  // by the keys' root
};

}  // namespace

bool HoldWalks(Program& program) {
  if (!absl::c_any_of(program.ops, HasKeyShard)) return false;
  WalkHolder holder(program);
  if (!holder.Hold()) return false;
  program.ops = holder.Ordered();
  return true;
}

}  // namespace asyra
