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

// Error: a path with a NUL byte, which the system would read up to there, as
// another file. Names from other people's files may have one.
absl::Status CheckPath(const std::string& path);

// Error: the path is that of a device or a pipe, which no file may replace.
absl::Status CheckNoStream(const std::string& path);

// 16 random hexadecimal digits: another name for each thread, process and host
// that writes in a folder.
std::string RandomName();

// Writes all to a descriptor; 0 or the system's error.
int WriteAll(int fd, std::string_view bytes);

// Writes the pieces one after the other into a temporary file beside `path`
// and renames it: a reader sees the old file or the new one, never half of
// one, and of several writers the last one's. A symbolic link to a file stays.
// Missing folders are not made. On error the temporary is removed. Error also:
// the path is that of no file but of a folder, a device or a pipe.
absl::Status WriteFileAtomically(const std::string& path,
                                 absl::Span<const std::string_view> pieces);

// The same of text that may go to a stream as well: what is no file is written
// as it is, /dev/stdout, /dev/stderr and /dev/fd/N to the descriptor. Error
// also: a pipe that nobody reads, which is not waited for.
absl::Status WriteTextFile(const std::string& path, std::string_view text);

// Opens a stream or a file for writing, with further flags such as O_APPEND,
// and waits for no reader; -1 sets errno.
int OpenWithoutWaiting(const std::string& path, int flags);

}  // namespace asyra
