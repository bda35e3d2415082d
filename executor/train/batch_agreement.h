// Ranks that hold the same part of a batch are given the same data: loaders
// that shuffle by rank are the most common error of a training over tp.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "executor/comm/communicator.h"
#include "ir/program.h"
#include "ir/tensor.h"

namespace asyra {

// Compares this rank's data inputs of `program`, in its order and of their
// local types, with those of the ranks that should be given the same. Blocks
// until all ranks have called it; ranks exchange hashes.
// Errors: `place` ("step 2"), the input, its type and two ranks that differ, or
// of a scalar input that all ranks have, as the rate, both values; ranks that
// give batches to different places.
absl::Status CheckBatchAgreement(Communicator& world, const Program& program,
                                 absl::Span<const Tensor> inputs,
                                 std::string_view place);

}  // namespace asyra
