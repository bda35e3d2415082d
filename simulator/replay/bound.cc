#include "simulator/replay/bound.h"

#include <limits>
#include <numeric>
#include <vector>

namespace asyra {
namespace {

class Bounds {
 public:
  Bounds(const Program& program, absl::Span<const OpCost> op_costs,
         const Dependencies& dependencies)
      : program_(program),
        op_costs_(op_costs),
        dependencies_(dependencies),
        heads_(op_costs.size(), 0),
        tails_(op_costs.size(), 0) {
    for (size_t i = 0; i < op_costs.size(); ++i) {
      for (int before : dependencies.AwaitedBy(static_cast<int>(i))) {
        heads_[i] =
            std::max(heads_[i], heads_[before] + op_costs[before].time_us);
      }
    }
    for (size_t i = op_costs.size(); i-- > 0;) {
      for (int before : dependencies.AwaitedBy(static_cast<int>(i))) {
        tails_[before] =
            std::max(tails_[before], tails_[i] + op_costs[i].time_us);
      }
    }
  }

  LowerBounds Find(bool contention) {
    LowerBounds bounds;
    for (size_t i = 0; i < op_costs_.size(); ++i) {
      bounds.critical_path_us =
          std::max(bounds.critical_path_us,
                   heads_[i] + op_costs_[i].time_us + tails_[i]);
    }
    std::vector<std::vector<double>> servers = Servers(contention);
    for (const std::vector<double>& work : servers) {
      bounds.load_us = std::max(bounds.load_us,
                                std::accumulate(work.begin(), work.end(), 0.0));
    }
    bounds.head_load_tail_us = std::max(Latest(servers, heads_, tails_),
                                        Latest(servers, tails_, heads_));
    return bounds;
  }

 private:
  // The load of each op on each server, in us of the whole server.
  std::vector<std::vector<double>> Servers(bool contention) const {
    size_t streams = program_.streams.size() + 1;
    size_t groups = dependencies_.communicators().size();
    size_t resources = contention ? kNumResources : 0;
    std::vector<std::vector<double>> servers(
        streams + groups + resources, std::vector<double>(op_costs_.size(), 0));
    for (size_t i = 0; i < op_costs_.size(); ++i) {
      const OpCost& cost = op_costs_[i];
      int group = dependencies_.CommunicatorOf(static_cast<int>(i));
      if (group >= 0) servers[streams + group][i] = cost.time_us;
      if (!cost.is_compute) continue;
      servers[program_.ops[i].stream + 1][i] = cost.time_us;
      for (size_t r = 0; r < resources; ++r) {
        servers[streams + groups + r][i] = cost.load[r] * cost.time_us;
      }
    }
    return servers;
  }

  // The maximum over sets of ops whose `near` is at least that of some op: the
  // least near, plus the load, plus the least far.
  static double Latest(const std::vector<std::vector<double>>& servers,
                       const std::vector<double>& near,
                       const std::vector<double>& far) {
    std::vector<int> order(near.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return near[a] > near[b]; });
    double bound = 0;
    for (const std::vector<double>& work : servers) {
      double load = 0, least_far = std::numeric_limits<double>::infinity();
      for (int op : order) {
        if (work[op] == 0) continue;
        load += work[op];
        least_far = std::min(least_far, far[op]);
        bound = std::max(bound, near[op] + load + least_far);
      }
    }
    return bound;
  }

  const Program& program_;
  absl::Span<const OpCost> op_costs_;
  const Dependencies& dependencies_;
  std::vector<double> heads_, tails_;  // before an op begins, after it ends
};

}  // namespace

LowerBounds LowerBoundsOf(const Program& program,
                          absl::Span<const OpCost> op_costs,
                          const Dependencies& dependencies, bool contention) {
  return Bounds(program, op_costs, dependencies).Find(contention);
}

}  // namespace asyra
