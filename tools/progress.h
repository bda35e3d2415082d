// Progress of long runs, on one line of a terminal.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

namespace asyra {

// "asyra-opt: 12 s: searching 2 tiles", cut to less than `width` columns.
std::string ProgressLine(std::string_view tool, double seconds,
                         std::string_view what, size_t width);

// Called with a description of each phase: shows it on stderr, once the program
// has run for two seconds. Each call rewrites the line of the one before. Where
// stderr is no terminal, it gets a line after 30 seconds, and then at most one
// in 30: a run of minutes is not silent. Thread-safe.
class Progress {
 public:
  explicit Progress(std::string tool) : tool_(std::move(tool)) {}

  void operator()(const std::string& what) const;

  // Takes the line away, before something else is printed.
  static void Erase();

 private:
  std::string tool_;
  std::chrono::steady_clock::time_point begin_ =
      std::chrono::steady_clock::now();
};

}  // namespace asyra
