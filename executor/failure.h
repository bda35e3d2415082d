// The first failure of one rank, which all its streams and its host thread
// see. After it no kernel runs, but streams still go through what was
// enqueued, so that nothing waits forever.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>

#include "absl/status/status.h"

namespace asyra {

// Thread-safe.
class Failure {
 public:
  Failure() = default;
  // `handler` is called once, with the first failure, by the thread that
  // reports it.
  explicit Failure(std::function<void(const absl::Status&)> handler)
      : handler_(std::move(handler)) {}

  bool happened() const { return happened_.load(std::memory_order_acquire); }

  // Keeps `status`, an error, unless there is one already.
  void Report(const absl::Status& status) {
    {
      std::lock_guard lock(mutex_);
      if (!status_.ok()) return;
      status_ = status;
      happened_.store(true, std::memory_order_release);
    }
    if (handler_) handler_(status);
  }

  absl::Status status() const {
    std::lock_guard lock(mutex_);
    return status_;
  }

 private:
  mutable std::mutex mutex_;
  absl::Status status_;
  std::atomic<bool> happened_ = false;
  std::function<void(const absl::Status&)> handler_;
};

}  // namespace asyra
