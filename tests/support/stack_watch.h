// Tells where a test hangs.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace asyra {

// Unless it is gone before `after`, prints the stacks of all threads of the
// process to stderr, once: as addresses in the executable, which addr2line -Cfe
// takes. Handles SIGUSR1 from then on.
class StackWatch {
 public:
  explicit StackWatch(std::chrono::milliseconds after);
  ~StackWatch();

  StackWatch(const StackWatch&) = delete;
  StackWatch& operator=(const StackWatch&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace asyra
