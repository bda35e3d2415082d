#include "executor/mpi/process_watch.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <array>

#include "absl/strings/numbers.h"
#include "fmt/format.h"
#include "ir/support/file.h"
#include "ir/support/host_name.h"

namespace asyra {
namespace {

std::string Link(const char* path) {
  std::array<char, 256> target{};
  ssize_t bytes = readlink(path, target.data(), target.size() - 1);
  return bytes > 0 ? std::string(target.data(), static_cast<size_t>(bytes))
                   : std::string();
}

// Process ids are comparable if this is equal.
std::string Realm() {
  return fmt::format("{}|{}", HostName(), Link("/proc/self/ns/pid"));
}

}  // namespace

std::string ProcessWatch::Me() {
  return fmt::format("{}|{}", Realm(), getpid());
}

ProcessWatch::ProcessWatch(const std::vector<std::string>& processes) {
  std::string realm = Realm();
  for (size_t i = 0; i < processes.size(); ++i) {
    size_t bar = processes[i].rfind('|');
    if (bar == std::string::npos || processes[i].substr(0, bar) != realm) {
      continue;
    }
    pid_t process = 0;
    if (!absl::SimpleAtoi(processes[i].substr(bar + 1), &process) ||
        process == getpid()) {
      continue;
    }
    // Readable when the process has ended, even before it is waited for.
    // Kernels before 5.3 have no such descriptors: then nobody is watched.
    auto descriptor = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
    if (descriptor < 0) continue;
    polled_.push_back({descriptor, POLLIN, 0});
    process_.push_back(process);
    number_.push_back(static_cast<int64_t>(i));
  }
}

ProcessWatch::~ProcessWatch() {
  for (const pollfd& polled : polled_) close(polled.fd);
}

int64_t ProcessWatch::Ended() {
  if (poll(polled_.data(), polled_.size(), 0) <= 0) return -1;
  for (size_t i = 0; i < polled_.size(); ++i) {
    if ((polled_[i].revents & POLLIN) != 0) return number_[i];
  }
  return -1;
}

int64_t ProcessWatch::Stopped() const {
  for (size_t i = 0; i < process_.size(); ++i) {
    std::string stat =
        ReadSystemFile(fmt::format("/proc/{}/stat", process_[i]));
    // "17 (name) T ...", where a name may have any bytes.
    size_t name_end = stat.rfind(')');
    if (name_end == std::string::npos || name_end + 2 >= stat.size()) continue;
    if (stat[name_end + 2] == 'T' || stat[name_end + 2] == 't') {
      return number_[i];
    }
  }
  return -1;
}

}  // namespace asyra
