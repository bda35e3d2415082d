// Progress messages of long runs.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <utility>

namespace asyra {

// Called with a description of each phase: prints it on stderr, if that is a
// terminal, once the program has run for two seconds and at most once a second.
// Prints nothing if stderr is a log.
class Progress {
 public:
  explicit Progress(std::string tool) : tool_(std::move(tool)) {}

  void operator()(const std::string& what) {
    using Clock = std::chrono::steady_clock;
    Clock::time_point now = Clock::now();
    if (now < next_ || isatty(STDERR_FILENO) == 0) return;
    next_ = now + std::chrono::seconds(1);
    std::chrono::duration<double> since = now - begin_;
    std::fprintf(stderr, "%s: %.0f s: %s\n", tool_.c_str(), since.count(),
                 what.c_str());
  }

 private:
  std::string tool_;
  std::chrono::steady_clock::time_point begin_ =
      std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point next_ =
      begin_ + std::chrono::seconds(2);
};

}  // namespace asyra
