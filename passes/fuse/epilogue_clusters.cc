#include "passes/fuse/epilogue_clusters.h"

#include "ir/body.h"
#include "ir/gpu/epilogue.h"

namespace asyra {
namespace {

class Finder {
 public:
  explicit Finder(const Program& program)
      : program_(program),
        def_use_(program),
        before_(CollectivesBefore(program, def_use_)),
        taken_(program.ops.size(), false) {}

  std::vector<FusionCluster> Run(size_t most_ops) {
    std::vector<FusionCluster> found;
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      if (!IsFree(program_.ops[i], Fusable::kMatmul)) continue;
      FusionCluster cluster = Behind(static_cast<int>(i), most_ops);
      if (cluster.size() < 2) continue;
      for (int op : cluster) taken_[op] = true;
      found.push_back(std::move(cluster));
    }
    return found;
  }

 private:
  FusionCluster Behind(int matmul, size_t most_ops) const {
    FusionCluster cluster = {matmul};
    while (cluster.size() < most_ops) {
      int next = OnlyReader(cluster.back());
      if (next < 0 || taken_[next] ||
          !IsFree(program_.ops[next], Fusable::kElement) ||
          before_[next] != before_[matmul] ||
          IsBarrierBetween(cluster.back(), next)) {
        break;
      }
      cluster.push_back(next);
      if (IsEpilogue(cluster)) continue;
      cluster.pop_back();
      break;
    }
    return cluster;
  }

  static bool IsFree(const Op& op, Fusable as) {
    return op.def->fusable == as && op.stream == kNoStream &&
           op.after.empty() && op.results.size() == 1;
  }

  int OnlyReader(int op) const {
    ValueId value = program_.ops[op].results[0];
    if (def_use_.output_uses[value] > 0) return -1;
    return def_use_.uses[value].size() == 1 ? def_use_.uses[value][0] : -1;
  }

  bool IsBarrierBetween(int first, int last) const {
    for (int i = first; i < last; ++i) {
      if (program_.ops[i].def->is_barrier) return true;
    }
    return false;
  }

  // The fusion's axis rule refuses a partial matmul.
  bool IsEpilogue(const FusionCluster& cluster) const {
    Op op = FusionOf(program_, def_use_, cluster);
    std::vector<Type> operands = program_.OperandTypes(op);
    auto types = InferTypes(*op.def, op.attrs, operands, program_.mesh);
    return types.ok() && *types == program_.ResultTypes(op) &&
           EpilogueOf(*BodyOf(op.attrs), operands).has_value();
  }

  const Program& program_;
  DefUse def_use_;
  // By op.
  std::vector<int> before_;
  std::vector<bool> taken_;
};

}  // namespace

std::vector<FusionCluster> FindEpilogues(const Program& program, int most_ops) {
  return Finder(program).Run(static_cast<size_t>(most_ops));
}

}  // namespace asyra
