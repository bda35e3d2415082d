// The last resort: the op's own reference, on the memory of the cpu.
#pragma once

#include <memory>

#include "executor/kernel.h"

namespace asyra {

// Unimplemented for ops that have no reference.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareReferenceKernel(
    const KernelUse& use);

}  // namespace asyra
