// The error of a schedule that does not fit into the memory of a device.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"

namespace asyra {

// Returns the error where a device has `capacity_bytes` and the smallest
// schedule takes `least_bytes`, which are told in GiB, rounded up.
absl::Status NothingFits(int64_t capacity_bytes, int64_t least_bytes);

// Returns the `least_bytes` of such an error as it was made, without a place in
// front of it; none of another one.
std::optional<int64_t> LeastBytes(const absl::Status& status);

}  // namespace asyra
