// The matrices that a matmul, matmul_wgrad or grouped_matmul (ir/ops/matmul.cc)
// multiplies, and their layout in memory; shared by the kernels of all devices.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "executor/kernel.h"

namespace asyra {

// Matmuls c[m, n] = a[m, k] b[k, n] of matrices in rows; a transposed operand
// is stored as [k, m] or [n, k].
struct MatmulPlan {
  bool transpose_a = false, transpose_b = false;
  int64_t m = 0, n = 0, k = 0;
  // Elements from one stored row of a, and of b, to the next; c is dense.
  int64_t a_stride = 0, b_stride = 0;
  // First elements of a, b and c of each matmul.
  std::vector<std::array<int64_t, 3>> matmuls;
};

// Plans this rank's part. Batches that share one b are one matmul.
MatmulPlan PlanMatmul(const KernelUse& use);

// Returns the first op of a fusion's body, a matmul, as a use of its own.
// `types` are those of all values of the body.
KernelUse MatmulOfFusion(const KernelUse& fusion, absl::Span<const Type> types);

}  // namespace asyra
