#include "tools/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <mutex>

#include "fmt/format.h"

namespace asyra {
namespace {

using Clock = std::chrono::steady_clock;

// The terminal has one line for all.
struct Line {
  std::mutex mutex;
  bool shown = false;
  Clock::time_point next;  // not before, so that a terminal keeps up
};
Line& TheLine() {
  static Line* line = new Line;
  return *line;
}

size_t TerminalWidth() {
  winsize size = {};
  bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

// To the left edge, then clears the line.
constexpr char kClear[] = "\r\x1b[K";

}  // namespace

std::string ProgressLine(std::string_view tool, double seconds,
                         std::string_view what, size_t width) {
  std::string line = fmt::format("{}: {:.0f} s: {}", tool, seconds, what);
  if (line.size() >= width) line.resize(width > 0 ? width - 1 : 0);
  return line;
}

void Progress::operator()(const std::string& what) const {
  static const bool terminal = isatty(STDERR_FILENO) != 0;
  const std::chrono::seconds quiet(terminal ? 2 : 30);
  const std::chrono::milliseconds least(terminal ? 100 : 30'000);
  Line& line = TheLine();
  std::lock_guard lock(line.mutex);
  Clock::time_point now = Clock::now();
  if (now < begin_ + quiet || now < line.next) return;
  line.next = now + least;
  std::chrono::duration<double> since = now - begin_;
  if (!terminal) {
    std::fputs(
        (ProgressLine(tool_, since.count(), what, SIZE_MAX) + "\n").c_str(),
        stderr);
    return;
  }
  line.shown = true;
  std::fputs(
      (kClear + ProgressLine(tool_, since.count(), what, TerminalWidth()))
          .c_str(),
      stderr);
}

void Progress::Erase() {
  Line& line = TheLine();
  std::lock_guard lock(line.mutex);
  if (line.shown) std::fputs(kClear, stderr);
  line.shown = false;
}

}  // namespace asyra
