// Standard output of the tools: what could not be written is an error at the
// end, as of cat and ls, and nothing is thrown before.
#pragma once

#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "fmt/format.h"

namespace asyra {

// Opens the standard descriptors that the caller has closed, so that no file
// takes their number; writes to them fail.
void OpenStandardDescriptors();

// Writes to standard output; CheckOutput has the error.
void PrintText(std::string_view text);
template <typename... Args>
void Print(fmt::format_string<Args...> text, Args&&... args) {
  PrintText(fmt::format(text, std::forward<Args>(args)...));
}

// Writes what is buffered.
void FlushOutput();

// Flushes. Error: something of all that was printed could not be written.
absl::Status CheckOutput();

}  // namespace asyra
