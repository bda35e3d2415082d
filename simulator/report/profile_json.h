// Writes profiles as JSON (schema: simulator/README.md), and reads them from
// JSON or from a trace.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "simulator/report/profile.h"

namespace asyra {

// Times of single ops are rounded to nanoseconds. Ends with a newline.
std::string ProfileJson(const Profile& profile);

// Reads the output of ProfileJson, or a Chrome trace of WriteChromeTrace or of
// PyTorch's profiler. Of a trace the GPU kernels of its first device count; its
// critical path is known if the slices have it. `origin` names the text in
// errors and is a trace's model name.
// Errors: no JSON, neither of these, a missing key or one of another type,
// ops that end before they start, no kernel.
absl::StatusOr<Profile> ReadProfile(std::string_view text,
                                    std::string_view origin);

}  // namespace asyra
