// How one op may use one mesh axis, and what each way costs: the moves of the
// dynamic program in axis_solver.h.
#pragma once

#include <vector>

#include "ir/program.h"
#include "passes/axis_roles.h"
#include "passes/dim_labels.h"
#include "passes/plan_sharding.h"

namespace asyra {

// How a value lies on one axis: whole, sharded along a dimension, or partial.
using Form = uint8_t;
inline constexpr Form kWhole = 0;
inline constexpr Form kPartial = 15;
inline Form ShardedOn(int dim) { return static_cast<Form>(1 + dim); }
// The forms in which a value is at hand, as a bit set.
using Forms = uint16_t;
inline Forms Bit(Form form) { return static_cast<Forms>(1u << form); }

inline constexpr FactorId kUnused = -1;

struct Choice {
  FactorId factor = kUnused;  // that the axis shards
  std::vector<Form> operands;
  std::vector<Form> results;
  double us = 0;  // of the op itself
};

// For one axis, given the axes decided before (`plan`). What it is made from
// must outlive it.
class AxisChoices {
 public:
  AxisChoices(const Program& program, const DimLabels& labels, AxisId axis,
              const PlanOptions& options, const ShardingPlan& plan);

  // All ways op i may use the axis; never empty.
  std::vector<Choice> ChoicesOf(int i) const;
  // Whether op i is one the axis was asked for to divide: it contracts or
  // indexes a weight matrix, and has such a dimension.
  bool MustDivide(int i) const;
  // A factor's axes with this one at its place: home axes first.
  AxisList WithAxis(int op, FactorId factor) const;

  // Bytes a device holds of an operand that is whole on this axis.
  double WholeBytes(int op, size_t operand) const;
  // The cheapest way from one of `have` to `need`; infinite when there is none.
  double ConvertUs(Forms have, Form need, double whole_bytes) const;

 private:
  bool TouchesWeightMatrix(const Op& op) const;
  bool InWeightMatrix(int i, FactorId factor) const;
  bool Divides(int i, FactorId factor) const;
  bool RoleAllows(int i, FactorId factor) const;
  bool TypesUnder(int i, const FactorAxes& axes, std::vector<Type>* operands,
                  std::vector<Type>* results) const;
  Form FormOf(const OperandFactors& dims, FactorId factor) const;
  double OpUs(int i, const std::vector<Type>& operands,
              const std::vector<Type>& results) const;
  void AddChoice(int i, FactorId factor, std::vector<Choice>* choices) const;
  void AddPartialChoices(int i, std::vector<Choice>* choices) const;

  const Program& program_;
  const DimLabels& labels_;
  const AxisId axis_;
  const AxisRole role_;
  const int64_t size_;
  const PlanOptions& options_;
  const ShardingPlan& plan_;
  std::vector<bool> is_weight_;  // by value: computed from weights alone
};

}  // namespace asyra
