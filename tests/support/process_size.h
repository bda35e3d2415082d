// What a long run could leave behind in this process.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace asyra {

// Of "/proc/self/fd" its open files, and one; of "/proc/self/task" its threads.
inline int64_t EntriesIn(const std::string& folder) {
  int64_t count = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator(folder)) {
    ++count;
  }
  return count;
}

inline int64_t ResidentKib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::stoll(line.substr(6));
  }
  return 0;
}

}  // namespace asyra
