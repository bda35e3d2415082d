// Ranks begin what is timed at the same moment: after a barrier, the last one
// learns of it some 10 us later than the first, and processes later than
// threads, which a step of a millisecond would count as its own time.
#pragma once

#include "absl/status/status.h"
#include "executor/comm/communicator.h"

namespace asyra {

// Returns on all ranks at once, some 100 us after the last has called it. Ranks
// of one host have one clock; on several hosts, it returns when all have called
// it. Errors: those of the exchange.
absl::Status BeginTogether(Communicator& world);

}  // namespace asyra
