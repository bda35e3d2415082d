// Calls of NCCL that return when other ranks have come as well: making a
// communicator, splitting it, connecting for the first collective. NCCL waits
// forever for a rank that was killed meanwhile.
#pragma once

#include <functional>

#include "absl/status/status.h"

namespace asyra::cuda {

// Returns the result of `call`, which runs on a thread of its own, on GPU
// `ordinal`. Meanwhile `check` is asked with the seconds that have passed, and
// its error is returned at once: then `call` goes on in the background, perhaps
// until the process ends, and has to own all that it uses. Where `call` itself
// fails, `check` has a moment to say which rank is the cause.
absl::Status WatchedCall(int ordinal, std::function<absl::Status()> call,
                         const std::function<absl::Status(double)>& check);

}  // namespace asyra::cuda
