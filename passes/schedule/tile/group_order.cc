#include "passes/schedule/tile/group_order.h"

#include <queue>

namespace asyra {

// Kahn's algorithm.
std::optional<std::vector<int>> GroupOrder(const Program& program,
                                           const DefUse& uses,
                                           const OpGroups& groups,
                                           absl::Span<const int> places) {
  size_t count = groups.ops.size();
  std::vector<int> waiting(count, 0);
  std::vector<std::vector<int>> readers(count);
  for (size_t g = 0; g < count; ++g) {
    auto depend = [&](ValueId value) {
      int def = uses.def[value];
      if (def < 0) return;
      bool own = groups.group_of[def] == static_cast<int>(g);
      if (own && !groups.sums.empty() && groups.sums[g]) return;
      readers[groups.group_of[def]].push_back(static_cast<int>(g));
      ++waiting[g];
    };
    for (int op : groups.ops[g]) {
      for (ValueId value : program.ops[op].operands) depend(value);
      for (ValueId value : program.ops[op].after) depend(value);
    }
  }
  using Entry = std::pair<int, int>;  // place, group
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  for (size_t g = 0; g < count; ++g) {
    if (waiting[g] == 0) ready.push({places[g], static_cast<int>(g)});
  }
  std::vector<int> order;
  while (!ready.empty()) {
    int next = ready.top().second;
    ready.pop();
    order.push_back(next);
    for (int reader : readers[next]) {
      if (--waiting[reader] == 0) ready.push({places[reader], reader});
    }
  }
  if (order.size() != count) return std::nullopt;
  return order;
}

}  // namespace asyra
