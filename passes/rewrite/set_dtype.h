// Another float type for a whole model.
#pragma once

#include "passes/pass.h"

namespace asyra {

// Computes in `dtype`: float types up to it become it, and so does the type of
// most weights where it is wider; others that are wider stay (sums that a
// 16-bit model keeps in f32). Inputs, outputs and constants change with it, and
// the data of weights is rounded to it.
// Errors: a type that is not a float.
absl::StatusOr<bool> SetDType(Program& program, const PassOptions& options,
                              PassContext& context);

}  // namespace asyra
