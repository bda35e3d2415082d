#include "passes/schedule/tile/join_collectives.h"

#include <algorithm>
#include <numeric>

#include "absl/algorithm/container.h"
#include "absl/types/span.h"
#include "ir/support/status.h"
#include "passes/schedule/tile/group_order.h"

namespace asyra {
namespace {

class Joiner {
 public:
  Joiner(const Program& program, const std::vector<JoinGroup>& groups)
      : program_(program), uses_(program) {
    nodes_.group_of.assign(program.ops.size(), -1);
    for (const JoinGroup& group : groups) AddGroup(group);
    for (size_t i = 0; i < program.ops.size(); ++i) {
      if (nodes_.group_of[i] < 0) AddNode({static_cast<int>(i)});
    }
  }

  absl::StatusOr<Program> Run(std::vector<int>* order) {
    std::vector<int> text(program_.ops.size());
    std::iota(text.begin(), text.end(), 0);
    ASYRA_ASSIGN_OR_RETURN(std::vector<int> sorted, Sort(text));
    Program joined = program_;
    joined.ops.clear();
    std::vector<int> index(nodes_.ops.size());
    for (int node : sorted) {
      index[node] = static_cast<int>(joined.ops.size());
      joined.ops.push_back(Join(nodes_.ops[node]));
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
    for (int op : ops)
      nodes_.group_of[op] = static_cast<int>(nodes_.ops.size());
    nodes_.ops.push_back(std::move(ops));
  }

  void AddGroup(const JoinGroup& group) {
    Node members;
    for (int op : group) {
      bool fits = nodes_.group_of[op] < 0 &&
                  !absl::c_linear_search(members, op) &&
                  (members.empty() ||
                   Joinable(program_.ops[members[0]], program_.ops[op]));
      if (fits) members.push_back(op);
    }
    if (members.size() < 2) return;
    absl::c_sort(members);
    AddNode(std::move(members));
  }

  // A node takes the place of its last op.
  absl::StatusOr<std::vector<int>> Sort(absl::Span<const int> place) const {
    std::vector<int> places;
    for (const Node& node : nodes_.ops) {
      int last = 0;
      for (int op : node) last = std::max(last, place[op]);
      places.push_back(last);
    }
    auto order = GroupOrder(program_, uses_, nodes_, places);
    if (order.has_value()) return *std::move(order);
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
  DefUse uses_;
  OpGroups nodes_;  // ops of the result
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
