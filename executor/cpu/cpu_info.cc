#include "executor/cpu/cpu_info.h"

#include <sched.h>

#include <algorithm>
#include <set>
#include <thread>
#include <vector>

#include "absl/strings/str_split.h"
#include "ir/support/file.h"

namespace asyra {

CpuInfo DescribeCpu() {
  CpuInfo info;
  info.cores =
      static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) {
    info.cores = std::max(1, CPU_COUNT(&allowed));
  }
  std::set<std::string> sockets;
  std::string text = ReadSystemFile("/proc/cpuinfo");
  for (const std::string& line :
       std::vector<std::string>(absl::StrSplit(text, '\n'))) {
    size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    std::string value = line.substr(colon + 2);
    if (line.starts_with("model name")) info.name = value;
    if (line.starts_with("physical id")) sockets.insert(value);
  }
  info.sockets = std::max<int>(1, static_cast<int>(sockets.size()));
  return info;
}

}  // namespace asyra
