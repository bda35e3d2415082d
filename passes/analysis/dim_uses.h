// Uses of the dimensions of activations by ops, for dim_labels.h.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/axis_rule.h"
#include "ir/program.h"

namespace asyra {

// Returns, by value, whether it is computed from weights alone.
std::vector<bool> ValuesOfWeights(const Program& program);

// Returns whether the op contracts or indexes a weight matrix. A table that is
// only added does not count, nor does an op on weights alone.
bool ContractsWeights(const Program& program, const Op& op,
                      const AxisRule& rule,
                      const std::vector<bool>& of_weights);

// Returns whether the op is a matmul, or attention, none of whose operands is a
// weight matrix.
bool IsMatmulOfData(const Program& program, const Op& op,
                    const std::vector<bool>& of_weights);

// Bits of a set.
enum DimUse : uint8_t {
  // Rows (M) of a matmul with weights: each is computed by itself.
  kRow = 1,
  // Summed over in a matmul with weights: features.
  kContracted = 2,
  // Rows of attention: each sees the keys by itself.
  kQuery = 4,
  // A batch dimension of a matmul of activations: each index of it is a
  // matmul by itself.
  kShared = 8,
};

// Returns a set of DimUse by op and by factor of its rule.
std::vector<std::vector<uint8_t>> DimUses(const Program& program,
                                          const std::vector<AxisRule>& rules,
                                          const std::vector<bool>& of_weights);

}  // namespace asyra
