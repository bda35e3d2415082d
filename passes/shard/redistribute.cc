#include "passes/shard/redistribute.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>

#include "ir/op_def.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

// A type as bytes: equal exactly for equal types.
std::string KeyOf(const Type& type) {
  std::string key;
  auto append = [&key](const AxisList& axes) {
    for (AxisId axis : axes) key.push_back(static_cast<char>(axis));
    key.push_back('\xff');
  };
  key.push_back(static_cast<char>(type.dtype));
  for (const Dim& dim : type.dims) {
    key.append(reinterpret_cast<const char*>(&dim.size), sizeof(dim.size));
    append(dim.axes);
  }
  append(type.partial);
  return key;
}

// Dijkstra's algorithm; a node is a distribution. Steps are taken on types
// alone, by the rules of ir/ops/collective.cc.
class Search {
 public:
  Search(const Type& from, const Type& to, const Mesh& mesh,
         const PlanCosts& costs)
      : from_(from), to_(to), mesh_(mesh), costs_(costs) {}

  absl::StatusOr<Redistribution> Run() {
    Reach({from_, 0, -1, "", -1, -1, {}});
    while (!queue_.empty()) {
      auto [us, index] = queue_.top();
      queue_.pop();
      if (nodes_[index].done) continue;
      nodes_[index].done = true;
      if (nodes_[index].type == to_) return Path(index);
      Expand(index);
    }
    return Invalid("{} cannot be redistributed as {}", ToString(from_, mesh_),
                   ToString(to_, mesh_));
  }

 private:
  struct Node {
    Type type;
    double us;
    int from;
    // The step that leads here.
    std::string_view op;
    int dim, to_dim;
    AxisList axes;
    bool done = false;
  };

  void Reach(Node node) {
    auto [at, fresh] =
        index_.emplace(KeyOf(node.type), static_cast<int>(nodes_.size()));
    double us = node.us;
    if (fresh) {
      nodes_.push_back(std::move(node));
    } else if (us < nodes_[at->second].us && !nodes_[at->second].done) {
      nodes_[at->second] = std::move(node);
    } else {
      return;
    }
    queue_.push({us, at->second});
  }

  void Collective(int index, std::string_view op, CollectiveKind kind, int dim,
                  int to_dim, const AxisList& axes, Type type) {
    const Node& before = nodes_[index];
    double payload = static_cast<double>(
        std::max(LocalBytes(before.type, mesh_), LocalBytes(type, mesh_)));
    double us = before.us + costs_.CollectiveUs(kind, payload, axes, mesh_);
    Reach({std::move(type), us, index, op, dim, to_dim, axes});
  }

  // Axes that may be added to `dim` next: every prefix of the goal's remaining
  // axes there, in the goal's order.
  std::vector<AxisList> Missing(const Type& type, int dim) const {
    const AxisList& have = type.dims[dim].axes;
    const AxisList& goal = to_.dims[dim].axes;
    std::vector<AxisList> lists;
    if (have.size() < goal.size() &&
        std::equal(have.begin(), have.end(), goal.begin())) {
      for (size_t end = have.size() + 1; end <= goal.size(); ++end) {
        lists.emplace_back(goal.begin() + have.size(), goal.begin() + end);
      }
    }
    return lists;
  }

  static void Append(AxisList* axes, const AxisList& more) {
    axes->insert(axes->end(), more.begin(), more.end());
  }
  static void Remove(AxisList* axes, const AxisList& less) {
    auto gone = [&less](AxisId axis) { return Contains(less, axis); };
    axes->erase(std::remove_if(axes->begin(), axes->end(), gone), axes->end());
  }

  // Gathers the innermost axes of a dimension, or moves them to another.
  void Release(int index, int dim, const AxisList& inner) {
    const Type type = nodes_[index].type;
    Type gathered = type;
    Remove(&gathered.dims[dim].axes, inner);
    Collective(index, "all_gather", CollectiveKind::kAllGather, dim, -1, inner,
               gathered);
    for (int to = 0; to < type.rank(); ++to) {
      if (to == dim) continue;
      for (const AxisList& list : Missing(type, to)) {
        if (list != inner) continue;
        Type moved = gathered;
        Append(&moved.dims[to].axes, inner);
        Collective(index, "all_to_all", CollectiveKind::kAllToAll, dim, to,
                   inner, std::move(moved));
      }
    }
  }

  // Cuts a dimension: of a whole value by taking a part, of a partial one by
  // summing a part.
  void Cut(int index, int dim, const AxisList& list) {
    const Type type = nodes_[index].type;
    size_t partial = 0, held = 0;
    for (AxisId axis : list) {
      partial += Contains(type.partial, axis);
      for (const Dim& other : type.dims) held += Contains(other.axes, axis);
    }
    Type cut = type;
    Append(&cut.dims[dim].axes, list);
    if (partial == 0 && held == 0) {
      double us = nodes_[index].us +
                  costs_.CopyUs(static_cast<double>(LocalBytes(cut, mesh_)));
      Reach({cut, us, index, "shard", dim, -1, list});
    } else if (partial == list.size()) {
      Remove(&cut.partial, list);
      Collective(index, "reduce_scatter", CollectiveKind::kReduceScatter, dim,
                 -1, list, cut);
    }
  }

  void Reduce(int index, const AxisList& axes) {
    Type sum = nodes_[index].type;
    Remove(&sum.partial, axes);
    Collective(index, "all_reduce", CollectiveKind::kAllReduce, -1, -1, axes,
               sum);
  }

  void Expand(int index) {
    const Type type = nodes_[index].type;
    for (int d = 0; d < type.rank(); ++d) {
      const AxisList& axes = type.dims[d].axes;
      for (size_t i = 0; i < axes.size(); ++i) {
        Release(index, d, AxisList(axes.begin() + i, axes.end()));
      }
      for (const AxisList& list : Missing(type, d)) Cut(index, d, list);
    }
    AxisList surplus;
    for (AxisId axis : type.partial) {
      if (Contains(to_.partial, axis)) continue;
      surplus.push_back(axis);
      Reduce(index, {axis});
    }
    if (surplus.size() > 1) Reduce(index, surplus);
  }

  static AttrMap AttrsOf(const Node& node) {
    int64_t dim = node.dim, to = node.to_dim;
    if (to >= 0) return {{"from", dim}, {"to", to}, {"axes", node.axes}};
    if (dim >= 0) return {{"dim", dim}, {"axes", node.axes}};
    return {{"axes", node.axes}};
  }

  Redistribution Path(int index) const {
    Redistribution path;
    path.us = nodes_[index].us;
    for (; nodes_[index].from >= 0; index = nodes_[index].from) {
      const Node& node = nodes_[index];
      path.steps.push_back({node.op, AttrsOf(node), node.type});
    }
    std::reverse(path.steps.begin(), path.steps.end());
    return path;
  }

  const Type& from_;
  const Type& to_;
  const Mesh& mesh_;
  const PlanCosts& costs_;
  std::vector<Node> nodes_;
  absl::flat_hash_map<std::string, int> index_;
  std::priority_queue<std::pair<double, int>,
                      std::vector<std::pair<double, int>>, std::greater<>>
      queue_;
};

}  // namespace

absl::StatusOr<Redistribution> Redistribute(const Type& from, const Type& to,
                                            const Mesh& mesh,
                                            const PlanCosts& costs) {
  return Search(from, to, mesh, costs).Run();
}

TypeId RedistributionCosts::Id(const Type& type) {
  auto [at, fresh] =
      ids_.emplace(KeyOf(type), static_cast<TypeId>(types_.size()));
  if (fresh) types_.push_back(type);
  return at->second;
}

int64_t RedistributionCosts::Ns(TypeId from, TypeId to) {
  if (from == to) return 0;
  auto [at, fresh] = ns_.emplace(std::make_pair(from, to), kInfeasible);
  if (!fresh) return at->second;
  for (AxisId axis : types_[to].partial) {
    if (!Contains(types_[from].partial, axis)) return kInfeasible;
  }
  absl::StatusOr<Redistribution> found =
      Redistribute(types_[from], types_[to], mesh_, costs_);
  if (found.ok()) at->second = std::llround(found->us * 1000);
  return at->second;
}

}  // namespace asyra
