// One axis rule per op: how the dimensions of its operands and results are
// bound to named factors, in the manner of einsum. Sharding propagation, the
// collectives that partition inserts, the legality of tiling and what bucketing
// may merge all follow from it; passes that shard, tile or schedule make no
// decision by op name.
//
//   matmul      "... m k, ... k n -> ... m n"
//   rms_norm    "... !d, !d -> ... !d"
//   attention   "b @s (h g) !d, b !t h !d, b !t h !e -> b s (h g) !e"
//   embedding   "@v e, ... -> ... e"
//
// A factor that reaches a result is parallel: each device (or tile) computes
// its own part. One that reaches no result is a reduction: devices hold partial
// results. One that reaches some results is a reduction for the others, as the
// queries are for the gradients of the keys. `!f` must be whole on every
// device. `@f` is positional: the op must know which part of the factor it was
// given (an embedding whose rows are sharded, a causal mask over part of the
// queries; without such a mask attention has `s`). `(h g)` is one dimension of
// several factors, outermost first, all but one of known size: `s=4` gives the
// size of a factor that never occurs alone. `...` stands for the leading
// dimensions and broadcasts as NumPy does. `_` is a dimension of size 1.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/type.h"

namespace asyra {

// kAccumulated: summed over, and the sum is added to an operand
// (AxisRule::accumulates_on). Devices hold partial results where that operand
// is partial too; no plan shards it.
enum class FactorKind : uint8_t { kParallel, kSum, kWhole, kAccumulated };

struct Factor {
  std::string name;
  int64_t size = 1;
  FactorKind kind = FactorKind::kParallel;
  bool positional = false;
};

using FactorId = int32_t;
// The factors of one dimension, outermost first. Empty: the dimension is
// bound to none (size 1, broadcast) and cannot be sharded.
using DimFactors = absl::InlinedVector<FactorId, 4>;
using OperandFactors = absl::InlinedVector<DimFactors, 4>;

// When partial operands give a partial result of the same axes.
enum class Linearity : uint8_t {
  kNone,   // never: f(a+b) is not f(a)+f(b)
  kJoint,  // all operands partial over the same axes: add, reshape, concat
  kEach,   // one operand partial, the others whole: multiply, matmul
  kFirst,  // operand 0 partial, the others whole: rows taken by ids
};

struct AxisRule {
  std::vector<Factor> factors;
  std::vector<OperandFactors> operands;
  std::vector<OperandFactors> results;
  Linearity linearity = Linearity::kNone;
  // The operand to which the op adds a sum over factors of kAccumulated, or -1:
  // partial over the axes that the results are partial over.
  int accumulates_on = -1;

  // The factor a dimension of an operand is sharded by first, or -1.
  FactorId Leading(int operand, int dim) const;
  bool UsedByOperand(FactorId factor, int operand) const;
  // Returns whether the factor is summed over in this result.
  bool IsSummedIn(FactorId factor, int result) const;
};

// Parses the notation above. Sizes come from the types. A factor inside a
// parenthesis has the size of the dimension where it occurs alone; at most one
// per dimension is found by division. Errors name the spec: they are bugs of an
// op definition, or operands whose shapes `infer` should have refused.
absl::StatusOr<AxisRule> ParseAxisRule(std::string_view spec,
                                       absl::Span<const Type> operands,
                                       absl::Span<const Type> results,
                                       Linearity linearity = Linearity::kNone);

// The mesh axes that shard each factor; one entry per factor of the rule.
using FactorAxes = std::vector<AxisList>;

// The axes of every factor under the operands' distribution.
// Errors: a dimension sharded by axes that do not match its factors, a whole
// factor that is sharded, operands that disagree about a factor; each names the
// operand, dimension and axes.
absl::StatusOr<FactorAxes> FactorAxesOf(const AxisRule& rule,
                                        absl::Span<const Type> operands,
                                        const Mesh& mesh);

// `type` with the sharding that `factors` give operand i or result i. Errors:
// an inner factor is sharded while the outer one is not completely, or sizes
// that do not divide.
absl::StatusOr<Type> ApplyFactorAxes(const Type& type,
                                     const OperandFactors& dims,
                                     const AxisRule& rule,
                                     const FactorAxes& factor_axes,
                                     const Mesh& mesh);

// The results' distribution that follows from the operands': dimensions by
// their factors, partial over the axes of sharded reduction factors and over
// those that linearity passes on. `results` gives shapes and element types.
absl::StatusOr<std::vector<Type>> Distribute(const AxisRule& rule,
                                             absl::Span<const Type> operands,
                                             absl::Span<const Type> results,
                                             const Mesh& mesh);

}  // namespace asyra
