// What each mesh axis may shard, and what it was asked to.
//
// An axis's role follows from its name: dp shards the batch, sp the tokens, tp
// weights (and tokens beside them), ep experts (and tokens), others anything.
// Experts are the factors along which weights form a batch of matrices; they
// may be given to other axes too (`--ep 8` over dp 4 and sp 2). No role knows
// an op: all follow from labels of dimensions and axis rules.
#pragma once

#include <string_view>
#include <vector>

#include "ir/program.h"
#include "passes/analysis/dim_labels.h"

namespace asyra {

enum class AxisRole : uint8_t { kBatch, kSequence, kModel, kExpert, kFree };

AxisRole RoleOf(std::string_view axis);

// Strategy of the norms and sums between the weights that a model axis divides:
// sharded along the tokens (reduce_scatter and all_gather around them),
// replicated (all_reduce), or what costs less.
enum class TpStrategy : uint8_t { kAny, kSequence, kReplicated };

// How tokens reach their experts: by all_to_all, sharded over the axis before
// and after; by all_gather and reduce_scatter, each device taking what its
// experts need of all tokens; or by what costs less.
enum class EpStrategy : uint8_t { kAny, kAllToAll, kAllGather };

// How far an axis that was of no use so far is asked to go beyond ops with
// weights: only where nothing before it helps.
enum class Insistence : uint8_t {
  kNone,
  kOwnInMatmuls,  // matmuls, along what a data axis is named after
  kHeads,         // attention along its heads, where tokens do not divide
  kOwn,           // any op, along what a data axis is named after
  kMatmuls,       // matmuls, along any factor that the axis may shard
  kAnyOp,         // any op, along any factor that the axis may shard
};
// The arguments must outlive it.
class AxisRoles {
 public:
  // `expert_axes` shard experts beside what their names say; axes called ep
  // do so anyway.
  AxisRoles(const Program& program, const DimLabels& labels,
            AxisList expert_axes, TpStrategy tp_strategy,
            EpStrategy ep_strategy);

  bool Allows(int op, FactorId factor, AxisId axis) const;
  // Whether a data axis is named after such dimensions.
  bool IsOwn(DimLabel label, AxisId axis) const;
  // What the axis was asked for: along batch, tokens, weights or experts, of
  // ops that contract or index a weight matrix, and as its strategy says in
  // those that bring tokens to experts and back. There it must do so wherever
  // sizes allow, even where the whole op would cost less: small models too
  // shall be sharded. A model axis need not divide matrices that hold next to
  // nothing of a model, as its routers.
  bool Divides(int op, FactorId factor, AxisId axis) const;
  // Asks for more of the axis than it was asked for before; false where there
  // is no more to ask for: an axis of experts shards nothing for its own sake,
  // one of data nothing but its own dimensions and heads.
  bool Insist(AxisId axis);
  // Whether the axis was asked so to divide the factor.
  bool Insists(int op, FactorId factor, AxisId axis) const;
  // A matmul of matrices none of which is a weight: attention.
  bool IsMatmulOfData(int op) const;
  // Whether op has a factor that the axis divides.
  bool MustDivide(int op, AxisId axis) const;

  // An axis is at home in the dimensions it shards throughout the program:
  // data axes in those of tokens, model axes in all others. Home axes are
  // outermost, so that a guest can come and go: tokens shard over (sp,tp)
  // around a norm and over sp beside it, heads over (tp,sp) inside attention
  // and over tp outside.
  AxisList Ordered(AxisList axes, DimLabel label) const;

  // Whether a program input is too small to mind a whole copy on every device
  // beside the shards that ops read.
  bool MayBeWhole(ValueId input) const;
  // By value: computed from weights alone.
  bool is_weight(ValueId value) const { return labels_.of_weights[value]; }
  AxisRole role(AxisId axis) const { return roles_[axis]; }
  const DimLabels& labels() const { return labels_; }
  // Whether some op multiplies by a batch of weight matrices.
  bool has_experts() const { return has_experts_; }
  // Whether the axis was asked to shard experts.
  bool ShardsExperts(AxisId axis) const;
  // Whether the factor is the batch of the weight matrices that op multiplies.
  bool IsExpert(int op, FactorId factor) const;

 private:
  bool InWeightMatrix(int op, FactorId factor) const;
  bool HasExpert(int op) const;
  int64_t MatrixBytes(int op) const;
  void FindMinorMatrices();
  void FindExperts();
  // Experts are in its operands or in its results, but not in both.
  bool MovesToExperts(int op) const;
  bool ContractsWeights(int op) const;
  bool MayTakeExperts(int op, FactorId factor, AxisId axis) const;

  const Program& program_;
  const DimLabels& labels_;
  AxisList expert_axes_;
  TpStrategy tp_strategy_;
  EpStrategy ep_strategy_;
  std::vector<AxisRole> roles_;         // by axis
  std::vector<Insistence> insistence_;  // by axis
  int64_t minor_bytes_ = 0;  // matrices up to that size need not be divided
  bool has_experts_ = false;
  // By op, by factor: experts, also where no weights are multiplied.
  std::vector<std::vector<bool>> expert_factors_;
};

}  // namespace asyra
