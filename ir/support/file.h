// Whole files in and out.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace asyra {

// The bytes of a regular file. Errors name the file and the system's reason.
absl::StatusOr<std::string> ReadFile(const std::string& path);

// A file of /proc or /sys, which does not say how long it is; without the line
// ends at its end. Empty where it cannot be read.
std::string ReadSystemFile(const std::string& path);

// Writes the pieces one after the other into a temporary file beside `path`
// and renames it: a reader sees the old file or the new one, never half of
// one, and of several writers the last one's. A symbolic link to a file stays;
// what is no file, a device or a pipe, is written as it is. Missing folders are
// not made. On error the temporary is removed.
absl::Status WriteFileAtomically(const std::string& path,
                                 absl::Span<const std::string_view> pieces);

}  // namespace asyra
