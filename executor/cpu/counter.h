// Counters by which threads of the cpu device wait for each other.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace asyra {

using CpuClock = std::chrono::steady_clock;

// Wraps around; targets are less than 2^31 ahead. Waiting threads see
// everything that a thread wrote before its Add.
class Counter {
 public:
  bool Reached(uint32_t target) const {
    return static_cast<int32_t>(value_.load(std::memory_order_acquire) -
                                target) >= 0;
  }
  uint32_t value() const { return value_.load(std::memory_order_acquire); }

  // Spins a few times, then sleeps.
  void WaitFor(uint32_t target);
  // Spins for about as long as waking a thread takes, then sleeps: for threads
  // that have a core to themselves.
  void WaitAwakeFor(uint32_t target);
  // Waits until `deadline` at the latest; returns whether the counter has
  // reached `target`.
  bool WaitFor(uint32_t target, CpuClock::time_point deadline);

  // Adds, and wakes those who wait, if there are any. Gives the new value.
  uint32_t Add(uint32_t by = 1);

 private:
  std::atomic<uint32_t> value_{0};
  std::atomic<uint32_t> sleepers_{0};
};

}  // namespace asyra
