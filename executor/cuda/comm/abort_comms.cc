#include "executor/cuda/comm/abort_comms.h"

#include <chrono>
#include <thread>

namespace asyra::cuda {

void CommAborts::Begin(ncclComm_t comm) {
  // A future of std::async would wait in its destructor.
  std::packaged_task<void()> end([comm] { ncclCommAbort(comm); });
  ends_.push_back(end.get_future());
  std::thread(std::move(end)).detach();
}

bool CommAborts::Wait(double timeout_s) {
  auto until = std::chrono::steady_clock::now() +
               std::chrono::duration<double>(timeout_s);
  bool all = true;
  for (std::future<void>& end : ends_) {
    all = end.wait_until(until) == std::future_status::ready && all;
  }
  return all;
}

}  // namespace asyra::cuda
