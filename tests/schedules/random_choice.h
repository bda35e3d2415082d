// Random decisions of the tests of random programs: meshes, costs, shardings.
#pragma once

#include <initializer_list>
#include <random>
#include <vector>

#include "ir/mesh.h"
#include "passes/shard/plan_sharding.h"

namespace asyra {

class RandomChoice {
 public:
  explicit RandomChoice(uint64_t seed) : random_(seed) {}

  uint64_t Below(uint64_t limit) { return random_() % limit; }
  bool Half() { return Below(2) == 0; }
  double Uniform(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random_);
  }

  template <typename T>
  T Pick(std::initializer_list<T> list) {
    return *(list.begin() + Below(list.size()));
  }
  template <typename T>
  T Pick(const std::vector<T>& list) {
    return list[Below(list.size())];
  }

  // Up to 12 devices. Few have an axis for experts: models without any, which
  // most are, refuse it.
  Mesh RandomMesh() {
    std::vector<Mesh::Axis> axes;
    int64_t devices = 1;
    for (const char* name : {"dp", "ep", "x", "sp", "tp"}) {
      int64_t size = Pick<int64_t>({1, 1, 2, 2, 3, 4});
      if (name == std::string_view("ep") && Below(6) > 0) size = 1;
      if (size == 1 || devices * size > 12) continue;
      devices *= size;
      axes.push_back({name, size});
    }
    return *Mesh::Create(std::move(axes));
  }

  PlanCosts RandomCosts() {
    PlanCosts costs;
    costs.latency_us = Pick<double>({0.001, 1, 100});
    costs.link_bytes_per_us = Pick<double>({1, 1000, 300e3});
    costs.flops_per_us = Pick<double>({0.1, 1e3, 600e6});
    costs.kernel_us = Pick<double>({0.001, 2});
    return costs;
  }

  // Some axes shard experts, the strategies are any.
  void SetStrategies(const Mesh& mesh, PlanOptions* options) {
    options->beam = Pick<int>({1, 8, 512});
    options->tp_strategy = Pick(
        {TpStrategy::kAny, TpStrategy::kSequence, TpStrategy::kReplicated});
    options->ep_strategy =
        Pick({EpStrategy::kAny, EpStrategy::kAllToAll, EpStrategy::kAllGather});
    for (int axis = 0; axis < mesh.num_axes(); ++axis) {
      if (Below(3) != 0) continue;
      options->expert_axes.push_back(static_cast<AxisId>(axis));
    }
  }

 private:
  std::mt19937_64 random_;
};

// The plan; where experts are too few for the axes, one without these.
inline absl::StatusOr<ShardingPlan> PlanWithAnyExperts(
    const Program& program, const PlanOptions& options) {
  PassContext context;
  absl::StatusOr<ShardingPlan> plan = PlanSharding(program, options, context);
  if (plan.ok() || options.expert_axes.empty()) return plan;
  PlanOptions fewer = options;
  fewer.expert_axes.clear();
  return PlanSharding(program, fewer, context);
}

}  // namespace asyra
