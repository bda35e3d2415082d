// Checks, types and axis rules that the ops of mixtures of experts share, with
// slots (moe.cc) or packed rows (packed_rows.cc): rows are operand 0, choices
// [..., tokens, k] operand 1, and the weights of these, if any, operand 2.
#pragma once

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/op_def.h"

namespace asyra::ops {

// Error: a group_size that does not divide the tokens.
absl::Status RequireGroups(const OpCall& call, int64_t tokens);

// A row for each choice, and the weighted sum of each token's rows. Error:
// weights of another type than the choices of rows have.
absl::StatusOr<std::vector<Type>> InferCollected(const OpCall& call);
absl::StatusOr<std::vector<Type>> InferCombined(const OpCall& call);

// Error: an operand, called by a plural, is of another type than `expected`.
absl::Status RequireTypes(const OpCall& call, int operand,
                          const Type& expected);

// The axis rule of both; `rows` is the part that says what rows are.
absl::StatusOr<AxisRule> CollectRule(const OpCall& call, std::string_view rows);

}  // namespace asyra::ops
