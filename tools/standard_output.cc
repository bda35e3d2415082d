#include "tools/standard_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "ir/support/status.h"

namespace asyra {
namespace {

// The first error of the system; 0: none.
std::atomic<int> first_error = 0;

void NoteError() {
  int none = 0;
  first_error.compare_exchange_strong(none, errno != 0 ? errno : EIO);
}

}  // namespace

void OpenStandardDescriptors() {
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    // The lowest number that is free, which is this one.
    [[maybe_unused]] int opened =
        ::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

std::string Coloured(std::string_view text) {
  constexpr std::string_view kBad = "\x1b[1;31m", kGood = "\x1b[32m",
                             kPlain = "\x1b[0m";
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"DOES NOT FIT", kBad},
      {"MORE time", kBad},
      {"check failed", kBad},
      {"check passed", kGood},
      {"ok: within", kGood}};
  std::string coloured(text);
  for (auto [words, colour] : kWords) {
    std::string shown = fmt::format("{}{}{}", colour, words, kPlain);
    for (size_t at = coloured.find(words); at != std::string::npos;
         at = coloured.find(words, at + shown.size())) {
      coloured.replace(at, words.size(), shown);
    }
  }
  return coloured;
}

bool ShowsColours(int descriptor) {
  const char* none = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  return ::isatty(descriptor) != 0 && (none == nullptr || *none == '\0') &&
         terminal != nullptr && std::string_view(terminal) != "dumb";
}

void PrintText(std::string_view text) {
  static const bool colours = ShowsColours(STDOUT_FILENO);
  std::string coloured;
  if (colours) text = coloured = Coloured(text);
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) {
    NoteError();
  }
}

void PrintNotes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) Print("note: {}\n", note);
}

void FlushOutput() {
  if (std::fflush(stdout) != 0) NoteError();
}

absl::Status CheckOutput() {
  FlushOutput();
  if (first_error == 0) return absl::OkStatus();
  return Invalid("cannot write to standard output: {}",
                 std::strerror(first_error));
}

}  // namespace asyra
