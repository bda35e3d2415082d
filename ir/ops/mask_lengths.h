// Shared by mask_lengths on all devices: the fault of a row that is not ones,
// then zeros.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace asyra::ops {

// The first element of a row that does not fit.
struct MaskFault {
  int64_t place = 0;
  // 1: it is behind a zero; 0: the row has fewer ones than it must have;
  // another number: it is neither.
  double value = 0;
};

// Reads a row of `size` elements, number(i), and sets `length` to its ones.
template <typename Number>
std::optional<MaskFault> FindMaskFault(int64_t size, int64_t least,
                                       Number number, int64_t* length) {
  *length = 0;
  for (int64_t i = 0; i < size; ++i) {
    const double value = number(i);
    if (value == 0) continue;
    if (value != 1 || *length != i) return MaskFault{i, value};
    ++*length;
  }
  if (*length < least) return MaskFault{*length, 0};
  return std::nullopt;
}

// Returns the error that names input, row and place. `row` counts from the
// first row of the operand over all devices.
absl::Status MaskFaultError(const std::string& input, int64_t row,
                            const MaskFault& fault);

}  // namespace asyra::ops
