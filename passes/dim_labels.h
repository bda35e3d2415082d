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

  std::vector<AxisRule> rules;  // by op
  // By op, by factor; of a factor that covers several, the outermost.
  std::vector<std::vector<DimLabel>> factors;
  // By value, by dimension; of what a reshape merged, the sequence before the
  // batch.
  std::vector<std::vector<DimLabel>> values;
};

}  // namespace asyra
