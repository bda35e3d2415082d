// Profiles as JSON (schema: simulator/README.md), and back from it or from a
// trace.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "simulator/profile.h"

namespace asyra {

// Times of single ops are rounded to nanoseconds. Ends with a newline.
std::string ProfileJson(const Profile& profile);

// What ProfileJson wrote, or a Chrome trace: one that WriteChromeTrace wrote,
// or that PyTorch's profiler did. Of a trace the GPU kernels of its first
// device count; its critical path is known where the slices carry it. `origin`
// names the text in errors and is the model's name of a trace.
// Errors: no JSON, neither of these, a missing key or one of another type,
// ops that end before they start, no kernel.
absl::StatusOr<Profile> ReadProfile(std::string_view text,
                                    std::string_view origin);

}  // namespace asyra
