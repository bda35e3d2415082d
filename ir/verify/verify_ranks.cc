#include <map>

#include "fmt/format.h"
#include "ir/happens_before.h"
#include "ir/printer.h"
#include "ir/support/status.h"
#include "ir/verify/verifier.h"

namespace asyra {
namespace {

// An op of a rank's program.
struct Place {
  int rank = 0;
  int op = 0;
};

// A group of devices over some axes, and the collectives that each runs over
// these axes, in its order.
struct Group {
  AxisList axes;
  std::vector<int64_t> members;
  std::map<int64_t, std::vector<int>> ops;  // by rank
};

class Ranks {
 public:
  explicit Ranks(absl::Span<const Program> ranks) : ranks_(ranks) {}

  absl::Status Verify() {
    ASYRA_RETURN_IF_ERROR(CheckMeshes());
    FindGroups();
    for (const auto& [key, group] : groups_) {
      ASYRA_RETURN_IF_ERROR(CheckGroup(group));
    }
    return CheckOrder();
  }

 private:
  absl::Status CheckMeshes() const {
    for (size_t r = 0; r < ranks_.size(); ++r) {
      if (ranks_[r].mesh == ranks_[0].mesh) continue;
      return Invalid("rank 0 is of the mesh {}, rank {} of {}",
                     ToString(ranks_[0].mesh), r, ToString(ranks_[r].mesh));
    }
    int64_t devices = ranks_.empty() ? 0 : ranks_[0].mesh.num_devices();
    if (devices == static_cast<int64_t>(ranks_.size())) return absl::OkStatus();
    return Invalid("{} programs for the {} devices of the mesh {}",
                   ranks_.size(), devices, ToString(ranks_[0].mesh));
  }

  // Groups by their axes, sorted, and their first member.
  void FindGroups() {
    for (size_t r = 0; r < ranks_.size(); ++r) {
      const Program& program = ranks_[r];
      for (size_t i = 0; i < program.ops.size(); ++i) {
        if (!program.ops[i].is_collective()) continue;
        AxisList axes = program.ops[i].attrs.Get<AxisList>("axes");
        std::sort(axes.begin(), axes.end());
        int64_t first = FirstMember(static_cast<int64_t>(r), axes);
        Group& group = groups_[{{axes.begin(), axes.end()}, first}];
        if (group.members.empty()) {
          group.axes = axes;
          group.members = program.mesh.Group(first, axes);
        }
        group.ops[static_cast<int64_t>(r)].push_back(static_cast<int>(i));
      }
    }
  }

  int64_t FirstMember(int64_t device, const AxisList& axes) {
    auto [at, fresh] =
        first_member_.try_emplace({{axes.begin(), axes.end()}, device}, 0);
    if (fresh) at->second = ranks_[0].mesh.Group(device, axes).front();
    return at->second;
  }

  absl::Status CheckGroup(const Group& group) {
    // The ranks that run collectives over these axes; all members must.
    int64_t first = group.members[0];
    const std::vector<int> none;
    auto ops_of = [&](int64_t rank) -> const std::vector<int>& {
      auto at = group.ops.find(rank);
      return at == group.ops.end() ? none : at->second;
    };
    const std::vector<int>& mine = ops_of(first);
    for (int64_t rank : group.members) {
      const std::vector<int>& theirs = ops_of(rank);
      size_t k = 0;
      while (k < mine.size() && k < theirs.size() &&
             Same(first, mine[k], rank, theirs[k])) {
        ++k;
      }
      if (k == mine.size() && k == theirs.size()) continue;
      auto at = [&](int64_t which, const std::vector<int>& ops) {
        if (k == ops.size()) return fmt::format("rank {} has no more", which);
        return fmt::format("rank {} runs {}", which, Text(which, ops[k]));
      };
      return Invalid("collective {} over {} differs: {}, {}", k + 1,
                     AxesToString(group.axes, ranks_[0].mesh), at(first, mine),
                     at(rank, theirs));
    }
    return absl::OkStatus();
  }

  const Op& At(int64_t rank, int op) const { return ranks_[rank].ops[op]; }
  std::string Text(int64_t rank, int op) const {
    return ToString(ranks_[rank], At(rank, op));
  }

  // The same kind over the same axes, of the same bytes and types.
  bool Same(int64_t rank_a, int op_a, int64_t rank_b, int op_b) const {
    const Op &a = At(rank_a, op_a), &b = At(rank_b, op_b);
    return a.def == b.def && a.attrs == b.attrs &&
           SameTypes(rank_a, a.operands, rank_b, b.operands) &&
           SameTypes(rank_a, a.results, rank_b, b.results);
  }
  template <typename Values>
  bool SameTypes(int64_t rank_a, const Values& a, int64_t rank_b,
                 const Values& b) const {
    auto same = [&](ValueId x, ValueId y) {
      // A collective may block on one rank and be started on another.
      Type left = ranks_[rank_a].type(x), right = ranks_[rank_b].type(y);
      left.future = right.future = false;
      return left == right;
    };
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
  }

  // One graph of all ranks' ops, in which a collective is one node for all
  // members of its group. Without a cycle there is an order for all ranks.
  absl::Status CheckOrder() {
    NumberNodes();
    FindEdges();
    std::vector<int> missing(places_.size(), 0);
    for (const auto& next : next_) {
      for (const Edge& edge : next) ++missing[edge.to];
    }
    std::vector<int> ready;
    for (size_t n = 0; n < missing.size(); ++n) {
      if (missing[n] == 0) ready.push_back(static_cast<int>(n));
    }
    size_t done = 0;
    while (!ready.empty()) {
      int node = ready.back();
      ready.pop_back();
      ++done;
      for (const Edge& edge : next_[node]) {
        if (--missing[edge.to] == 0) ready.push_back(edge.to);
      }
    }
    if (done == places_.size()) return absl::OkStatus();
    return Circle(missing);
  }

  struct Edge {
    int to;
    int rank;  // whose program says so
  };

  void NumberNodes() {
    node_.resize(ranks_.size());
    for (size_t r = 0; r < ranks_.size(); ++r) {
      node_[r].assign(ranks_[r].ops.size(), -1);
    }
    for (const auto& [key, group] : groups_) {
      size_t count = group.ops.begin()->second.size();
      for (size_t k = 0; k < count; ++k) {
        for (const auto& [rank, ops] : group.ops) {
          node_[rank][ops[k]] = static_cast<int>(places_.size());
        }
        int64_t first = group.ops.begin()->first;
        places_.push_back(
            {static_cast<int>(first), group.ops.begin()->second[k]});
      }
    }
    for (size_t r = 0; r < ranks_.size(); ++r) {
      for (size_t i = 0; i < node_[r].size(); ++i) {
        if (node_[r][i] >= 0) continue;
        node_[r][i] = static_cast<int>(places_.size());
        places_.push_back({static_cast<int>(r), static_cast<int>(i)});
      }
    }
  }

  // The edges of ir/happens_before.h.
  void FindEdges() {
    next_.resize(places_.size());
    for (size_t r = 0; r < ranks_.size(); ++r) {
      const Program& program = ranks_[r];
      DefUse def_use(program);
      std::vector<int> last(program.streams.size() + 1, -1);
      for (size_t i = 0; i < program.ops.size(); ++i) {
        const Op& op = program.ops[i];
        int to = node_[r][i];
        auto add = [&](int from) {
          next_[node_[r][from]].push_back({to, static_cast<int>(r)});
        };
        int& before = last[op.stream + 1];
        if (before >= 0) add(before);
        before = static_cast<int>(i);
        for (int from : AwaitedOps(op, def_use)) add(from);
      }
    }
  }

  // Names a cycle among the nodes that still wait.
  absl::Status Circle(const std::vector<int>& missing) const {
    // For each such node, one that it waits for and that waits as well.
    std::vector<Edge> waits(places_.size(), {-1, -1});
    for (size_t n = 0; n < next_.size(); ++n) {
      if (missing[n] == 0) continue;
      for (const Edge& edge : next_[n]) {
        waits[edge.to] = {static_cast<int>(n), edge.rank};
      }
    }
    int node = 0;
    while (missing[node] == 0) ++node;
    // After as many steps as there are nodes, the current one is on the cycle.
    for (size_t i = 0; i < places_.size(); ++i) node = waits[node].to;
    return Invalid("ranks wait for each other in a circle: {}",
                   Describe(node, waits));
  }

  // Describes the cycle by its collectives, which alone connect ranks: "rank 0
  // comes to A after B; rank 1 comes to B after A".
  std::string Describe(int node, const std::vector<Edge>& waits) const {
    while (!IsShared(node)) node = waits[node].to;
    std::string text;
    int start = node;
    do {
      int earlier = node, rank = waits[node].rank;
      do {
        earlier = waits[earlier].to;
      } while (!IsShared(earlier));
      if (!text.empty()) text += "; ";
      text += fmt::format("rank {} comes to {} after {}", rank, Text(node),
                          Text(earlier));
      node = earlier;
    } while (node != start);
    return text;
  }
  bool IsShared(int node) const {
    return At(places_[node].rank, places_[node].op).is_collective();
  }
  std::string Text(int node) const {
    int rank = places_[node].rank;
    return Brief(ranks_[rank], At(rank, places_[node].op));
  }

  absl::Span<const Program> ranks_;
  using Key = std::pair<std::vector<AxisId>, int64_t>;
  std::map<Key, Group> groups_;  // by axes and first member
  std::map<Key, int64_t> first_member_;
  std::vector<std::vector<int>> node_;   // by rank and op
  std::vector<Place> places_;            // by node, one op that it is
  std::vector<std::vector<Edge>> next_;  // by node
};

}  // namespace

absl::Status VerifyRanks(absl::Span<const Program> ranks) {
  return Ranks(ranks).Verify();
}

}  // namespace asyra
