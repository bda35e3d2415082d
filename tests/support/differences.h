// Gradients beside what differences of the loss tell.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ir/program.h"

namespace asyra {

// Whether each output X.grad is the derivative of the first output, a number,
// by the input X: to `tolerance`, absolute and relative, of central differences
// of each element. Says the first that is not; an error also where no output
// is called so.
absl::Status GradientsAreDifferences(const Program& program,
                                     const std::vector<Tensor>& inputs,
                                     double tolerance);

}  // namespace asyra
