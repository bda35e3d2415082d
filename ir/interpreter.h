// Runs a program on the host by the ops' reference implementations: on one
// device, or on every device of its mesh in lockstep with real shards and real
// collectives. It is the meaning against which passes, kernels and the
// executor are tested; speed is not its purpose.
#pragma once

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/program.h"

namespace asyra {

// `inputs` are global tensors of the shapes in which inputs are given
// (Program::GivenShape), one per input of the program; a weight's may be left
// out (an empty tensor of dtype f32 and shape [0]) where the program's
// weight store has it. Returns the global tensor of each output. A replicated
// output whose copies differ between devices is an error, and so is a partial
// one that replaces no state; the parts of such a state are added up.
absl::StatusOr<std::vector<Tensor>> Interpret(const Program& program,
                                              absl::Span<const Tensor> inputs);

// Runs one op on one device; its operand types must be undistributed. For
// constant folding and kernels under test.
absl::StatusOr<std::vector<Tensor>> Evaluate(const OpDef& def,
                                             const AttrMap& attrs,
                                             absl::Span<const Tensor> operands);

// Tensors for the data inputs of a program where a user gives none, and for
// weights that have no data: reproducible from `seed`. Floats are normal with
// standard deviation 0.02 for weights and 1 for data; integers are in
// [0, int_limit). Tensors of millions of elements repeat the first of them.
std::vector<Tensor> RandomInputs(const Program& program, uint64_t seed,
                                 int64_t int_limit);

}  // namespace asyra
