// What a long run could leave behind in this process.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/sanitized.h"

namespace asyra {

// What a process holds. Two are compared while its other threads wait: one
// that opens a file would be counted.
struct ProcessSize {
  int64_t files = 0, threads = 0, kib = 0;

  static ProcessSize Now() {
    return {EntriesIn("/proc/self/fd"), EntriesIn("/proc/self/task"),
            ResidentKib()};
  }

  static int64_t EntriesIn(const std::string& folder) {
    int64_t count = 0;
    for ([[maybe_unused]] const auto& entry :
         std::filesystem::directory_iterator(folder)) {
      ++count;
    }
    return count;
  }

 private:
  static int64_t ResidentKib() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("VmRSS:")) return std::stoll(line.substr(6));
    }
    return 0;
  }
};

// The same files and threads, and no more than a MiB besides. Sanitizers keep
// what was freed.
inline void ExpectHasNotGrown(const ProcessSize& size,
                              const ProcessSize& before) {
  EXPECT_EQ(size.files, before.files);
  EXPECT_EQ(size.threads, before.threads);
  EXPECT_TRUE(kSanitized || size.kib <= before.kib + 1024)
      << size.kib << " KiB, " << before.kib << " before";
}

}  // namespace asyra
