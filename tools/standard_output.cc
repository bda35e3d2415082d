#include "tools/standard_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

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

void PrintText(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) {
    NoteError();
  }
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
