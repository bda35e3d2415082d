#include "passes/join_collectives.h"

#include <algorithm>
#include <numeric>
#include <queue>

#include "absl/algorithm/container.h"
#include "absl/types/span.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

class Joiner {
 public:
  Joiner(const Program& program, const std::vector<JoinGroup>& groups)
      : program_(program), node_of_(program.ops.size(), -1) {
    for (const JoinGroup& group : groups) AddGroup(group);
    for (size_t i = 0; i < program.ops.size(); ++i) {
      if (node_of_[i] < 0) AddNode({static_cast<int>(i)});
    }
  }

  absl::StatusOr<Program> Run(std::vector<int>* order) {
    std::vector<int> text(program_.ops.size());
    std::iota(text.begin(), text.end(), 0);
    ASYRA_ASSIGN_OR_RETURN(std::vector<int> sorted, Sort(text));
    Program joined = program_;
    joined.ops.clear();
    std::vector<int> index(nodes_.size());
    for (int node : sorted) {
      index[node] = static_cast<int>(joined.ops.size());
      joined.ops.push_back(Join(nodes_[node]));
    }
    if (order == nullptr) return joined;
    std::vector<int> place(order->size());
    for (size_t i = 0; i < order->size(); ++i) {
      place[(*order)[i]] = static_cast<int>(i);
    }
    ASYRA_ASSIGN_OR_RETURN(*order, Sort(place));
    for (int& node : *order) node = index[node];
    return joined;
  }

 private:
  // Op indices, ascending.
  using Node = JoinGroup;

  void AddNode(Node ops) {
    for (int op : ops) node_of_[op] = static_cast<int>(nodes_.size());
    nodes_.push_back(std::move(ops));
  }

  void AddGroup(const JoinGroup& group) {
    Node members;
    for (int op : group) {
      bool fits = node_of_[op] < 0 && !absl::c_linear_search(members, op) &&
                  (members.empty() ||
                   Joinable(program_.ops[members[0]], program_.ops[op]));
      if (fits) members.push_back(op);
    }
    if (members.size() < 2) return;
    absl::c_sort(members);
    AddNode(std::move(members));
  }

  // Kahn's algorithm; among what is ready, the node whose last op has the first
  // place.
  absl::StatusOr<std::vector<int>> Sort(absl::Span<const int> place) const {
    DefUse uses(program_);
    std::vector<int> waiting(nodes_.size(), 0);
    std::vector<std::vector<int>> readers(nodes_.size());
    for (size_t n = 0; n < nodes_.size(); ++n) {
      for (int op : nodes_[n]) {
        auto depend = [&](ValueId value) {
          int def = uses.def[value];
          if (def < 0) return;
          readers[node_of_[def]].push_back(static_cast<int>(n));
          ++waiting[n];
        };
        absl::c_for_each(program_.ops[op].operands, depend);
        absl::c_for_each(program_.ops[op].after, depend);
      }
    }
    using Entry = std::pair<int, int>;  // place, node
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    auto becomes_ready = [&](int n) {
      int last = 0;
      for (int op : nodes_[n]) last = std::max(last, place[op]);
      ready.push({last, n});
    };
    for (size_t n = 0; n < nodes_.size(); ++n) {
      if (waiting[n] == 0) becomes_ready(static_cast<int>(n));
    }
    std::vector<int> order;
    while (!ready.empty()) {
      int n = ready.top().second;
      ready.pop();
      order.push_back(n);
      for (int reader : readers[n]) {
        if (--waiting[reader] == 0) becomes_ready(reader);
      }
    }
    if (order.size() == nodes_.size()) return order;
    return Invalid("joining these collectives makes a cycle");
  }

  Op Join(const Node& node) const {
    Op joined = program_.ops[node[0]];
    for (size_t i = 1; i < node.size(); ++i) {
      const Op& op = program_.ops[node[i]];
      joined.operands.insert(joined.operands.end(), op.operands.begin(),
                             op.operands.end());
      joined.results.insert(joined.results.end(), op.results.begin(),
                            op.results.end());
      for (ValueId value : op.after) {
        if (absl::c_linear_search(joined.after, value)) continue;
        joined.after.push_back(value);
      }
    }
    return joined;
  }

  const Program& program_;
  std::vector<Node> nodes_;
  std::vector<int> node_of_;  // by op
};

}  // namespace

bool Joinable(const Op& a, const Op& b) {
  return a.start && b.start && a.is_collective() && a.def == b.def &&
         a.stream == b.stream && a.attrs == b.attrs;
}

absl::StatusOr<Program> JoinCollectives(const Program& program,
                                        const std::vector<JoinGroup>& groups,
                                        std::vector<int>* order) {
  return Joiner(program, groups).Run(order);
}

}  // namespace asyra
