// The scale of the loss where gradients are f16, which changes from step to
// step.
#pragma once

#include "absl/status/statusor.h"
#include "ir/builder.h"

namespace asyra {

// The first loss scale is 2 to it over the terms of the loss.
inline constexpr double kFirstLossScaleLog2 = 16;

struct LossScale {
  ValueId state = kNoValue;  // the input kLossScaleLog2, f32
  ValueId scale = kNoValue;  // 2 ^ (state + first), a power of two
};

// Adds both to a program that is begun, a copy of `from`: in place of its data
// input kLossScale.
absl::StatusOr<LossScale> AddLossScale(const Program& from, Builder& builder);

}  // namespace asyra
