// Rules for what each mesh axis may shard, and what it must shard because the
// user requested it.
//
// An axis's role follows from its name: dp shards the batch, sp the tokens, tp
// weights (and tokens beside them), ep experts (and tokens), others anything.
// Experts are the factors along which weights form a batch of matrices; they
// may be assigned to other axes too (`--ep 8` over dp 4 and sp 2). Roles do not
// depend on op names, only on labels of dimensions and axis rules.
#pragma once

#include <string_view>
#include <vector>

#include "ir/program.h"
#include "passes/analysis/dim_labels.h"

namespace asyra {

enum class AxisRole : uint8_t { kBatch, kSequence, kModel, kExpert, kFree };

AxisRole RoleOf(std::string_view axis);

// The outer part of an axis of tokens that shards rows of attention and not its
// heads: "sp.context" (search/factor_sequence.h).
inline constexpr char kRowsPart[] = "context";

// Strategy of the norms and sums between the weights that a model axis divides:
// sharded along the tokens (reduce_scatter and all_gather around them),
// replicated (all_reduce), or whichever costs less.
enum class TpStrategy : uint8_t { kAny, kSequence, kReplicated };

// Strategy of moving tokens to their experts: by all_to_all, sharded over the
// axis before and after; by all_gather and reduce_scatter, with each device
// selecting the tokens of its experts; or by whichever costs less.
enum class EpStrategy : uint8_t { kAny, kAllToAll, kAllGather };

// Levels of what an axis must shard beyond ops with weights. Each is tried only
// if the axis has no use at the levels before it.
enum class Insistence : uint8_t {
  kNone,
  kOwnInMatmuls,  // matmuls, along the dimension that a data axis is named
                  // after
  kHeads,         // attention along its heads, where tokens do not divide
  kOwn,           // any op, along the dimension that a data axis is named after
  kMatmuls,       // matmuls, along any factor that the axis may shard
  kAnyOp,         // any op, along any factor that the axis may shard
};
// The arguments must outlive it.
class AxisRoles {
 public:
  // `expert_axes` shard experts in addition to the role of their names; axes
  // called ep always do.
  AxisRoles(const Program& program, const DimLabels& labels,
            AxisList expert_axes, TpStrategy tp_strategy,
            EpStrategy ep_strategy);

  bool Allows(int op, FactorId factor, AxisId axis) const;
  // Returns whether a data axis is named after such dimensions.
  bool IsOwn(DimLabel label, AxisId axis) const;
  // Returns whether the axis must shard this factor: batch, tokens, weights or
  // experts of ops that contract or index a weight matrix, and, by its
  // strategy, of ops that move tokens to experts and back. Required wherever
  // sizes allow, even if the whole op would cost less, so that small models are
  // sharded too. A model axis need not divide very small matrices such as
  // routers.
  bool Divides(int op, FactorId factor, AxisId axis) const;
  // Raises the level of the axis; false at the last level: an expert axis has
  // no further levels, a data axis shards only its own dimensions and heads.
  bool Insist(AxisId axis);
  // Returns whether the level of the axis requires it to divide the factor.
  bool Insists(int op, FactorId factor, AxisId axis) const;
  // Makes data axes divide sums of gradients: ops that sum over the axis's
  // dimension of all their operands, as the gradient of weights does, so that
  // the result is partial and no operand moves.
  void DivideSums() { divide_sums_ = true; }
  // Allows any axis to shard anything, for updates, whose forms are given.
  void AllowAll() { allow_all_.assign(allow_all_.size(), true); }
  void AllowAll(int op) { allow_all_[op] = true; }
  // Returns whether op is a matmul of matrices none of which is a weight:
  // attention.
  bool IsMatmulOfData(int op) const;
  // Returns whether op has a factor that the axis divides.
  bool MustDivide(int op, AxisId axis) const;

  // Home axes of a dimension shard it throughout the program: data axes those
  // of tokens, all others the rest. They are outermost, so that other axes can
  // be added and removed: tokens shard over (sp,tp) around a norm and over sp
  // elsewhere, heads over (tp,sp) inside attention and over tp outside. Of
  // model axes and axes for experts in a dimension of no tokens, experts' are
  // the outer ones, or the inner ones.
  AxisList Ordered(AxisList axes, DimLabel label, bool experts_outside) const;
  // Returns whether the order depends on `experts_outside`.
  bool HasTwoOrders(const AxisList& axes, DimLabel label) const;

  // Returns whether a program input is so small that every device may hold a
  // whole copy in addition to its shard.
  bool MayBeWhole(ValueId input) const;
  // Returns whether the value is computed from weights alone.
  bool is_weight(ValueId value) const { return labels_.of_weights[value]; }
  AxisRole role(AxisId axis) const { return roles_[axis]; }
  const DimLabels& labels() const { return labels_; }
  // Returns whether some op multiplies by a batch of weight matrices.
  bool has_experts() const { return has_experts_; }
  // Returns whether the axis was asked to shard experts.
  bool ShardsExperts(AxisId axis) const;
  // Returns whether the factor is the batch of the weight matrices that op
  // multiplies.
  bool IsExpert(int op, FactorId factor) const;

 private:
  // Returns whether the rows of the op, whose places it knows, are runs: one
  // for each device that the outermost axes of tokens lead to, so that these
  // shard nothing else, and no other axis of tokens shards rows; and whether
  // `axis`, one of tokens, is among the outermost ones.
  bool HasRuns(int op) const;
  bool IsForRows(AxisId axis) const;
  bool SharesRuns(int op, AxisId axis) const;
  bool InWeightMatrix(int op, FactorId factor) const;
  bool TouchesExperts(int op) const;
  bool SumsOperands(int op, FactorId factor) const;
  bool HasExpert(int op) const;
  int64_t MatrixBytes(int op) const;
  void FindMinorMatrices();
  void FindExperts();
  // Experts are a dimension of its operands or of its results, but not of both.
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
  bool has_experts_ = false, divide_sums_ = false;
  std::vector<bool> allow_all_;  // by op
  // Experts, by op, by factor, also where no weights are multiplied.
  std::vector<std::vector<bool>> expert_factors_;
};

}  // namespace asyra
