// The order of multi_adamw's operands (ir/ops/optim.cc): rate, step and scale,
// then param, grad, m and v of each parameter. Results: param, m and v of each.
#pragma once

#include <array>

#include "absl/types/span.h"

namespace asyra {

inline constexpr int kAdamWShared = 3, kAdamWOfParam = 4, kAdamWResults = 3;

// Operands of adamw for parameter i.
template <typename T>
std::array<T, kAdamWOfParam + kAdamWShared> OfAdamW(
    absl::Span<const T> operands, size_t i) {
  const T* of_param = &operands[kAdamWShared + kAdamWOfParam * i];
  return {of_param[0], of_param[1], of_param[2], of_param[3],
          operands[0], operands[1], operands[2]};
}

}  // namespace asyra
