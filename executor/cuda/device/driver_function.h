// Functions of the driver, looked up at run time, so that nothing links it.
#pragma once

#include "absl/status/statusor.h"

namespace asyra::cuda {

// Returns the address of a function as it was in that version of CUDA (12050 is
// 12.5); null where the driver has none.
absl::StatusOr<void*> DriverFunction(const char* name, unsigned version);

}  // namespace asyra::cuda
