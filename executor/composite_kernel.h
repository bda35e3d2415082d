// A fusion without a kernel of its own: the kernels of its body's ops, one
// after the other, intermediate values in the workspace.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "executor/device.h"

namespace asyra {

// Results may overwrite operands (OpDef::in_place). If another op of the body
// still reads the operand, the result is written elsewhere and copied at the
// end. Errors: those of the device's kernels.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareComposite(const KernelUse& use,
                                                         Device& device);

}  // namespace asyra
