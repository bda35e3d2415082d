// Standard output of the tools: what could not be written is an error at the
// end, as of cat and ls, and nothing is thrown before.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "fmt/format.h"

namespace asyra {

// Opens the standard descriptors that the caller has closed, so that no file
// takes their number; writes to them fail.
void OpenStandardDescriptors();

// The text with colours of a terminal for what should not be overlooked, as
// "DOES NOT FIT", and for what was checked and is right.
std::string Coloured(std::string_view text);
// Returns whether a descriptor shows colours: it is a terminal, and the
// environment has neither NO_COLOR nor TERM=dumb.
bool ShowsColours(int descriptor);

// Writes to standard output, coloured where that shows; CheckOutput has the
// error.
void PrintText(std::string_view text);
template <typename... Args>
void Print(fmt::format_string<Args...> text, Args&&... args) {
  PrintText(fmt::format(text, std::forward<Args>(args)...));
}

// Writes a line each.
void PrintNotes(const std::vector<std::string>& notes);

// Writes what is buffered.
void FlushOutput();

// Flushes. Error: something of all that was printed could not be written.
absl::Status CheckOutput();

}  // namespace asyra
