// Finds out which of the processes of a host have ended.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <string>
#include <vector>

namespace asyra {

// Thread-compatible.
class ProcessWatch {
 public:
  // Identifies this process to others that watch it; valid only on this host
  // and in this container.
  static std::string Me();

  // `processes`: what Me() gave each. Those elsewhere are not watched, nor is
  // this process itself.
  explicit ProcessWatch(const std::vector<std::string>& processes);
  ~ProcessWatch();
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;

  // Returns the first process that has ended, or -1.
  int64_t Ended();
  // Returns the first process that a signal has stopped, or -1.
  int64_t Stopped() const;

 private:
  std::vector<pollfd> polled_;  // descriptors of processes
  std::vector<pid_t> process_;
  std::vector<int64_t> number_;  // of each, among `processes`
};

}  // namespace asyra
