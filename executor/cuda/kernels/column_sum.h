// Sums over the rows of a matrix (ir/ops/reduce.cc) on the GPU, as gradients of
// biases are.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "executor/cuda/device/element.h"

namespace asyra::cuda {

// Sum over the rows of a dense matrix [rows, columns]. Sums are f32, or f64 of
// f64, until they are stored.
struct ColumnSum {
  Element element = Element::kF32, result = Element::kF32;
  int64_t rows = 0, columns = 0;
  // Chunks of rows that are summed first; 0: all at once. Set by PlanColumnSum.
  int64_t chunks = 0;
};

// Returns whether there is a kernel for it, and whether it is worth its
// launches.
bool PlanColumnSum(ColumnSum* p);
int64_t WorkspaceBytes(const ColumnSum& p);

// The order of all sums is fixed.
cudaError_t SumColumns(const ColumnSum& p, const void* x, void* workspace,
                       void* to, cudaStream_t stream);

}  // namespace asyra::cuda
