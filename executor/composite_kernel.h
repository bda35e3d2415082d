// A fusion without a kernel of its own: the kernels of its body's ops, one
// after the other, intermediate values in the workspace.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "executor/device.h"

namespace asyra {

// Results may overwrite operands (OpDef::in_place): one that another op of the
// body would miss is written beside them and copied in the end. Errors: those
// of the device's kernels.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareComposite(const KernelUse& use,
                                                         Device& device);

}  // namespace asyra
