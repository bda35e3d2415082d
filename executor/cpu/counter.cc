#include "executor/cpu/counter.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace asyra {
namespace {

// There are usually more threads than cores, so that spinning mostly takes the
// core from the thread it waits for.
constexpr int kLooks = 64;
// Some 20 us, which waking a thread takes.
constexpr int kAwakeLooks = 20000;

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

timespec Left(CpuClock::time_point deadline) {
  auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(
                  deadline - CpuClock::now())
                  .count();
  return {static_cast<time_t>(left / 1000000000),
          static_cast<long>(left % 1000000000)};
}

}  // namespace

// std::atomic::wait knows no deadline, so this calls the kernel itself.
bool Counter::WaitFor(uint32_t target, CpuClock::time_point deadline) {
  for (int i = 0; i < kLooks; ++i) {
    if (Reached(target)) return true;
  }
  bool forever = deadline == CpuClock::time_point::max();
  sleepers_.fetch_add(1);
  bool reached = false;
  while (true) {
    // In one order with Add's own accesses: either the sleeper sees the new
    // value here, or Add sees the sleeper.
    uint32_t seen = value_.load();
    reached = static_cast<int32_t>(seen - target) >= 0;
    if (reached) break;
    timespec left{};
    if (!forever) {
      left = Left(deadline);
      if (left.tv_sec < 0 || left.tv_nsec < 0) break;
    }
    syscall(SYS_futex, &value_, FUTEX_WAIT_PRIVATE, seen,
            forever ? nullptr : &left, nullptr, 0);
  }
  sleepers_.fetch_sub(1);
  return reached;
}

void Counter::WaitFor(uint32_t target) {
  WaitFor(target, CpuClock::time_point::max());
}

void Counter::WaitAwakeFor(uint32_t target) {
  for (int i = 0; i < kAwakeLooks; ++i) {
    if (Reached(target)) return;
    std::atomic_signal_fence(std::memory_order_seq_cst);  // looks each time
  }
  WaitFor(target);
}

uint32_t Counter::Add(uint32_t by) {
  uint32_t value = value_.fetch_add(by) + by;
  if (sleepers_.load() > 0) {
    syscall(SYS_futex, &value_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr,
            0);
  }
  return value;
}

}  // namespace asyra
