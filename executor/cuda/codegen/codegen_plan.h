// The plan of a generated kernel before it is written: form, vectors,
// threads, and which values belong to a whole row.
#pragma once

#include <vector>

#include "executor/cuda/codegen/expression.h"
#include "executor/cuda/codegen/loop.h"

namespace asyra::cuda {

struct CodegenPlan {
  const Expression& expression;  // outlives it
  enum Form : uint8_t { kElements, kRows, kStripes } form = kElements;
  Loop loop;             // collapsed; of kElements without rows
  bool wide = false;     // indices need 64 bits
  bool is_half = false;  // floats, also those between ops, are f16 or bf16
  int64_t vector = 1;    // elements that are moved at once, of the last column
  int64_t vectors = 0;   // of a row
  int row_threads = 1;
  int held = 0;  // vectors that a thread keeps in registers; 0: read again
  int threads = 256;
  int64_t blocks = 0;

  // Properties by node: the same for all elements of a row; after how many
  // rounds of reductions it is known. `levels` are all rounds.
  std::vector<bool> is_uniform;
  std::vector<int> level;
  int levels = 0;
  std::vector<bool> is_packed;      // by operand: differs within a row
  std::vector<bool> is_row_result;  // by result: one element for a row

  // Returns the step between neighbouring elements of a row.
  int64_t Step(const Access& access) const {
    return loop.columns.empty() ? 0 : access.strides.back();
  }
  // Elements that one vector has of an access.
  int64_t Width(const Access& access) const {
    return Step(access) == 0 ? 1 : vector;
  }
  // Returns the nodes, not uniform, that have to be computed for `targets`.
  std::vector<bool> NeededFor(const std::vector<int>& targets) const;
};

CodegenPlan PlanCode(const Expression& expression, const Loop& loop);

}  // namespace asyra::cuda
