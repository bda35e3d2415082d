#include "passes/redistribute.h"

#include <algorithm>
#include <queue>

#include "absl/container/flat_hash_map.h"
#include "ir/op_def.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

// Dijkstra's algorithm; a node is a distribution, keyed by its text.
class Search {
 public:
  Search(const Type& from, const Type& to, const Mesh& mesh,
         const PlanPrices& prices)
      : from_(from), to_(to), mesh_(mesh), prices_(prices) {}

  absl::StatusOr<Redistribution> Run() {
    Reach(from_, 0, -1, {});
    while (!queue_.empty()) {
      auto [us, index] = queue_.top();
      queue_.pop();
      if (nodes_[index].done) continue;
      nodes_[index].done = true;
      if (nodes_[index].step.type == to_) return Path(index);
      Expand(index);
    }
    return Invalid("{} cannot be redistributed as {}", ToString(from_, mesh_),
                   ToString(to_, mesh_));
  }

 private:
  struct Node {
    RedistributeStep step;
    double us;
    int from;
    bool done = false;
  };

  void Reach(const Type& type, double us, int from, RedistributeStep step) {
    step.type = type;
    auto [at, fresh] =
        index_.emplace(ToString(type, mesh_), static_cast<int>(nodes_.size()));
    if (fresh) {
      nodes_.push_back({std::move(step), us, from});
    } else if (us < nodes_[at->second].us && !nodes_[at->second].done) {
      nodes_[at->second] = {std::move(step), us, from};
    } else {
      return;
    }
    queue_.push({us, at->second});
  }

  // Tries one op; what it cannot do is no edge.
  void Try(int index, std::string_view op, const AttrMap& attrs) {
    const Type type = nodes_[index].step.type;
    const OpDef* def = FindOp(op);
    absl::StatusOr<std::vector<Type>> result =
        InferTypes(*def, attrs, {type}, mesh_);
    if (!result.ok()) return;
    double us = nodes_[index].us + Us(*def, attrs, type, (*result)[0]);
    Reach((*result)[0], us, index, {op, attrs, {}});
  }

  double Us(const OpDef& def, const AttrMap& attrs, const Type& before,
            const Type& after) const {
    if (def.collective == CollectiveKind::kNone) return prices_.kernel_us;
    double n = static_cast<double>(mesh_.size(attrs.Get<AxisList>("axes")));
    double bytes = static_cast<double>(
        std::max(before.Local(mesh_).bytes(), after.Local(mesh_).bytes()));
    double rounds = def.collective == CollectiveKind::kAllReduce ? 2 : 1;
    PlanPrices::Link link = prices_.Over(attrs.Get<AxisList>("axes"));
    return link.latency_us + rounds * bytes * (n - 1) / n / link.bytes_per_us;
  }

  // Axes that may be put on `dim` next: what the goal has there beyond what is
  // there already, in the goal's order; every prefix of it.
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

  void Expand(int index) {
    const Type type = nodes_[index].step.type;
    for (int64_t d = 0; d < type.rank(); ++d) {
      const AxisList& axes = type.dims[d].axes;
      for (size_t i = 0; i < axes.size(); ++i) {
        AxisList inner(axes.begin() + i, axes.end());
        Try(index, "all_gather", {{"dim", d}, {"axes", inner}});
        for (int64_t e = 0; e < type.rank(); ++e) {
          if (e == d) continue;
          for (const AxisList& list : Missing(type, static_cast<int>(e))) {
            if (list != inner) continue;
            Try(index, "all_to_all", {{"from", d}, {"to", e}, {"axes", inner}});
          }
        }
      }
      for (const AxisList& list : Missing(type, static_cast<int>(d))) {
        Try(index, "shard", {{"dim", d}, {"axes", list}});
        Try(index, "reduce_scatter", {{"dim", d}, {"axes", list}});
      }
    }
    AxisList surplus;
    for (AxisId axis : type.partial) {
      if (Contains(to_.partial, axis)) continue;
      surplus.push_back(axis);
      Try(index, "all_reduce", {{"axes", AxisList{axis}}});
    }
    if (surplus.size() > 1) Try(index, "all_reduce", {{"axes", surplus}});
  }

  Redistribution Path(int index) const {
    Redistribution path;
    path.us = nodes_[index].us;
    for (; nodes_[index].from >= 0; index = nodes_[index].from) {
      path.steps.push_back(nodes_[index].step);
    }
    std::reverse(path.steps.begin(), path.steps.end());
    return path;
  }

  const Type& from_;
  const Type& to_;
  const Mesh& mesh_;
  const PlanPrices& prices_;
  std::vector<Node> nodes_;
  absl::flat_hash_map<std::string, int> index_;
  std::priority_queue<std::pair<double, int>,
                      std::vector<std::pair<double, int>>, std::greater<>>
      queue_;
};

}  // namespace

absl::StatusOr<Redistribution> Redistribute(const Type& from, const Type& to,
                                            const Mesh& mesh,
                                            const PlanPrices& prices) {
  return Search(from, to, mesh, prices).Run();
}

}  // namespace asyra
