// Which dimensions are the batch and the sequence: labels that start at the
// program's data inputs (dimension 0 is the batch, dimension 1 the sequence)
// and flow along the factors of axis rules. They tell a data axis of the mesh
// (dp, sp) from a model axis (tp, ep), without knowing any model.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "ir/axis_rule.h"
#include "ir/program.h"

namespace asyra {

enum class DimLabel : uint8_t { kNone, kBatch, kSequence };

struct DimLabels {
  // Computes labels and axis rules of a program of stage global.
  static absl::StatusOr<DimLabels> Of(const Program& program);

  std::vector<AxisRule> rules;                 // by op
  std::vector<std::vector<DimLabel>> factors;  // by op, by factor
};

}  // namespace asyra
