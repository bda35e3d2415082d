// The meaning of an op (ir/ops) as the last resort of devices.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/kernel.h"
#include "ir/tensor.h"

namespace asyra {

// Returns the results of the op's reference for this rank's operands. Errors:
// those of the reference; Internal where it gives another type than the op
// says.
absl::StatusOr<std::vector<Tensor>> ComputeByReference(
    const KernelUse& use, absl::Span<const Tensor> operands);

}  // namespace asyra
