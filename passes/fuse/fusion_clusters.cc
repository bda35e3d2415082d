#include "passes/fuse/fusion_clusters.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "ir/body.h"
#include "passes/analysis/op_classes.h"
#include "passes/analysis/reach.h"

namespace asyra {
namespace {

// Operands and results of a kernel.
constexpr size_t kMostValues = 32;
// A share of a cost that is not worth a decision.
constexpr double kNothing = 1e-6;
// The most by which ops behind a collective may end later because a cluster
// waits for it with ops that need not, as a share of what the cluster saves.
constexpr double kLate = 0.1;

bool IsOfRows(const OpDef& def) {
  return def.fusable == Fusable::kElement || def.fusable == Fusable::kRow;
}

class Finder {
 public:
  Finder(const Program& program, const CostModel* costs,
         const ClusterOptions& options)
      : program_(program),
        costs_(costs),
        options_(options),
        def_use_(program),
        classes_(OpClasses(program)),
        cluster_of_(program.ops.size()),
        behind_(CollectivesBefore(program, def_use_)) {}

  std::vector<FusionCluster> Run() {
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      cluster_of_[i] = static_cast<int>(clusters_.size());
      clusters_.push_back(Single(static_cast<int>(i)));
      if (clusters_.back().joins) JoinProducers(static_cast<int>(i));
    }
    // Ops that did not pay beside a part of a cluster may pay beside all of it.
    for (size_t i = 0; i < clusters_.size(); ++i) {
      const FusionCluster ops = clusters_[i].ops;
      if (ops.size() < 2) continue;
      for (int op : ops) JoinProducers(op);
    }
    std::vector<FusionCluster> found;
    for (Cluster& cluster : clusters_) {
      if (cluster.ops.size() > 1) found.push_back(std::move(cluster.ops));
    }
    absl::c_sort(found, [](const FusionCluster& a, const FusionCluster& b) {
      return a.back() < b.back();
    });
    return found;
  }

 private:
  struct Cluster {
    FusionCluster ops;  // empty: joined with another one
    bool joins = false;
    Type loop;  // of its largest value, whole rows
    bool has_reduction = false;
    double cost = 0;
  };

  Cluster Single(int index) {
    const Op& op = program_.ops[index];
    Cluster cluster{.ops = {index}};
    if (!IsOfRows(*op.def) || op.stream != kNoStream || !op.after.empty() ||
        op.results.size() != 1) {
      return cluster;
    }
    cluster.loop = program_.type(op.results[0]);
    // The fusion's axis rule decides whether partial values fuse.
    for (ValueId value : op.operands) {
      if (program_.type(value).future) return cluster;
    }
    if (op.def->fusable == Fusable::kRow) {
      cluster.has_reduction = true;
      cluster.loop = program_.type(op.operands[0]);
    }
    // Reductions of other dimensions are not row reductions.
    cluster.joins = CostOf(cluster.ops, &cluster.cost);
    return cluster;
  }

  // Sets `cost` to that of ops as one kernel, in microseconds, or bytes without
  // a machine. False if they are not one kernel. Layers repeat: each kernel is
  // estimated once.
  bool CostOf(const FusionCluster& ops, double* cost) {
    auto [known, is_new] = costs_of_.try_emplace(KeyOf(ops));
    double found = 0;
    if (is_new && Estimate(ops, &found)) known->second = found;
    if (known->second.has_value()) *cost = *known->second;
    return known->second.has_value();
  }

  // Returns a key that tells the kernel of these ops from others: their
  // classes, which of them read one value, and whose results others read.
  std::vector<int> KeyOf(const FusionCluster& ops) const {
    std::vector<int> key;
    absl::flat_hash_map<ValueId, int> number;
    for (int index : ops) {
      const Op& op = program_.ops[index];
      key.push_back(classes_[index]);
      for (ValueId value : op.operands) {
        key.push_back(number.emplace(value, number.size()).first->second);
      }
      for (ValueId value : op.results) {
        bool is_read = def_use_.output_uses[value] > 0;
        for (int user : def_use_.uses[value]) is_read |= !Has(ops, user);
        key.push_back(number.emplace(value, number.size()).first->second);
        key.push_back(is_read ? 1 : 0);
      }
    }
    return key;
  }

  bool Estimate(const FusionCluster& ops, double* cost) const {
    Op op = FusionOf(program_, def_use_, ops);
    std::vector<Type> operands = program_.OperandTypes(op);
    std::vector<Type> results = program_.ResultTypes(op);
    if (operands.size() + results.size() > kMostValues) return false;
    auto types = InferTypes(*op.def, op.attrs, operands, program_.mesh);
    if (!types.ok() || *types != results) return false;
    // A single op has its own cost.
    const Op& whole = ops.size() == 1 ? program_.ops[ops[0]] : op;
    OpUse use(program_, whole);
    if (costs_ != nullptr) {
      OpCost whole_cost = costs_->Cost(use);
      if (options_.measured_only && ops.size() > 1 &&
          whole_cost.source > OpCost::kInterpolated) {
        return false;
      }
      *cost = std::max(whole_cost.time_us, whole_cost.launch_us);
      return true;
    }
    Work work = WorkOf(use, program_.mesh);
    *cost = work.read_bytes + work.write_bytes;
    return true;
  }

  void JoinProducers(int index) {
    for (ValueId value : program_.ops[index].operands) {
      int def = def_use_.def[value];
      if (def < 0 || cluster_of_[def] == cluster_of_[index]) continue;
      Join(cluster_of_[def], cluster_of_[index]);
    }
  }

  // The reduced dimension of each row, kept or dropped.
  static bool IsLeftOf(const Type& small, const Type& loop) {
    if (loop.rank() == 0 || small.rank() > loop.rank() ||
        small.rank() + 1 < loop.rank()) {
      return false;
    }
    for (int d = 0; d + 1 < loop.rank(); ++d) {
      if (!(small.dims[d] == loop.dims[d])) return false;
    }
    return small.rank() < loop.rank() || small.dims.back().size == 1;
  }

  static bool FitsTogether(const Cluster& made, const Cluster& reads) {
    if (made.has_reduction && reads.has_reduction) return false;
    if (made.loop.dims == reads.loop.dims) return true;
    return made.has_reduction && IsLeftOf(reads.loop, made.loop);
  }

  void Join(int made_id, int reads_id) {
    Cluster& made = clusters_[made_id];
    Cluster& reads = clusters_[reads_id];
    if (!made.joins || !FitsTogether(made, reads) ||
        made.ops.size() + reads.ops.size() >
            static_cast<size_t>(options_.most_ops)) {
      return;
    }
    Cluster both{.joins = true,
                 .loop = made.loop,
                 .has_reduction = made.has_reduction || reads.has_reduction};
    std::merge(made.ops.begin(), made.ops.end(), reads.ops.begin(),
               reads.ops.end(), std::back_inserter(both.ops));
    if (!MayMoveBack(both.ops) || !CostOf(both.ops, &both.cost) ||
        both.cost >= (made.cost + reads.cost) * (1 - kNothing) ||
        !WaitsForNothing(both, made.cost + reads.cost - both.cost)) {
      return;
    }
    for (int op : made.ops) cluster_of_[op] = reads_id;
    made = Cluster();
    reads = std::move(both);
  }

  static bool Has(const FusionCluster& ops, int op) {
    return absl::c_binary_search(ops, op);
  }

  // Returns whether the ops may move to the position of the last of them: no op
  // outside reads their results before, and there is no barrier in between.
  bool MayMoveBack(const FusionCluster& ops) const {
    for (int i = ops.front(); i < ops.back(); ++i) {
      if (program_.ops[i].def->is_barrier) return false;
    }
    for (int op : ops) {
      for (ValueId value : program_.ops[op].results) {
        for (int user : def_use_.uses[value]) {
          if (user < ops.back() && !Has(ops, user)) return false;
        }
      }
    }
    return true;
  }

  // Returns whether the ops that need not wait for the collective that others
  // of the cluster wait for may wait for it: their results are not needed
  // before it, and the ops behind it are late by next to nothing of what is
  // saved.
  bool WaitsForNothing(const Cluster& cluster, double saved) {
    int last = -1;
    for (int op : cluster.ops) last = std::max(last, behind_[op]);
    FusionCluster late;
    for (int op : cluster.ops) {
      if (behind_[op] == last) {
        late.push_back(op);
      } else if (!IsNeededBehind(last, op, cluster.ops)) {
        return false;
      }
    }
    double cost = 0;
    return late.size() == cluster.ops.size() ||
           (CostOf(late, &cost) && cluster.cost - cost <= kLate * saved);
  }

  // Returns whether the results of a fusable op are read by `cluster`, by ops
  // that wait for `collective` or a later one, or by other fusable ops of that
  // kind.
  bool IsNeededBehind(int collective, int op,
                      const FusionCluster& cluster) const {
    for (ValueId value : program_.ops[op].results) {
      if (def_use_.output_uses[value] > 0) return false;
      for (int user : def_use_.uses[value]) {
        if (Has(cluster, user) || behind_[user] >= collective) continue;
        if (!IsOfRows(*program_.ops[user].def) ||
            !IsNeededBehind(collective, user, cluster)) {
          return false;
        }
      }
    }
    return true;
  }

  const Program& program_;
  const CostModel* costs_;
  ClusterOptions options_;
  DefUse def_use_;
  const std::vector<int> classes_;  // by op
  // The costs by KeyOf; none where the ops are not one kernel.
  absl::flat_hash_map<std::vector<int>, std::optional<double>> costs_of_;
  std::vector<Cluster> clusters_;
  std::vector<int> cluster_of_;  // by op
  std::vector<int> behind_;      // by op: a collective, or -1
};

}  // namespace

std::vector<FusionCluster> FindClusters(const Program& program,
                                        const CostModel* costs,
                                        const ClusterOptions& options) {
  return Finder(program, costs, options).Run();
}

std::vector<int> CollectivesBefore(const Program& program,
                                   const DefUse& def_use) {
  std::vector<bool> reached(program.values.size(), false);
  for (const Input& input : program.inputs) {
    reached[input.value] = input.role == InputRole::kData;
  }
  std::vector<bool> depends = Descendants(program, std::move(reached));
  std::vector<int> before(program.ops.size(), -1);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    for (ValueId value : program.ops[i].operands) {
      int def = def_use.def[value];
      if (def < 0) continue;
      bool waits = program.ops[def].is_collective() && depends[def];
      before[i] = std::max(before[i], waits ? def : before[def]);
    }
  }
  return before;
}

Op FusionOf(const Program& program, const DefUse& def_use,
            const FusionCluster& cluster) {
  Op fusion;
  fusion.def = FindOp("fusion");
  Body body;
  auto is_inside = [&](int op) { return absl::c_binary_search(cluster, op); };
  absl::flat_hash_map<ValueId, int> number;
  for (int index : cluster) {
    for (ValueId value : program.ops[index].operands) {
      int def = def_use.def[value];
      if (def >= 0 && is_inside(def)) continue;
      if (number.emplace(value, body.num_operands).second) {
        fusion.operands.push_back(value);
        ++body.num_operands;
      }
    }
  }
  for (int index : cluster) {
    const Op& op = program.ops[index];
    BodyOp inner{.def = op.def, .attrs = op.attrs};
    for (ValueId value : op.operands) inner.operands.push_back(number[value]);
    ValueId result = op.results[0];
    int value = body.num_values();
    number.emplace(result, value);
    body.ops.push_back(std::move(inner));
    bool is_read = def_use.output_uses[result] > 0;
    for (int user : def_use.uses[result]) is_read |= !is_inside(user);
    if (!is_read) continue;
    body.results.push_back(value);
    fusion.results.push_back(result);
  }
  fusion.attrs.Set("body", BodyRef(std::move(body)));
  return fusion;
}

}  // namespace asyra
