#include "executor/cuda/comm/watched_call.h"

#include <chrono>
#include <future>
#include <thread>

#include "executor/cuda/device/cuda_status.h"

namespace asyra::cuda {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kBetweenChecks = std::chrono::milliseconds(1);
// Time until the control plane knows of a rank whose end NCCL has noticed.
constexpr double kNoticeSeconds = 2;

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

absl::Status WatchedCall(int ordinal, std::function<absl::Status()> call,
                         const std::function<absl::Status(double)>& check) {
  std::promise<absl::Status> promise;
  std::future<absl::Status> done = promise.get_future();
  std::thread([ordinal, call = std::move(call),
               promise = std::move(promise)]() mutable {
    OnGpu gpu(ordinal);
    absl::Status status = call();
    // The call's resources are the caller's again.
    call = nullptr;
    promise.set_value(std::move(status));
  }).detach();
  Clock::time_point begin = Clock::now();
  while (done.wait_for(kBetweenChecks) != std::future_status::ready) {
    absl::Status status = check(SecondsSince(begin));
    if (!status.ok()) return status;
  }
  absl::Status status = done.get();
  if (status.ok()) return status;
  begin = Clock::now();
  while (SecondsSince(begin) < kNoticeSeconds) {
    absl::Status cause = check(0);
    if (!cause.ok()) return cause;
    std::this_thread::sleep_for(kBetweenChecks);
  }
  return status;
}

}  // namespace asyra::cuda
