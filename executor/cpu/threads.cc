#include "executor/cpu/threads.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#ifdef ASYRA_ONEDNN
#include <omp.h>
#endif

namespace asyra {
namespace {

constexpr uint64_t kShortSliceNs = 100'000;  // the shortest that Linux takes

thread_local int compute_threads = 1;

// struct sched_attr of the kernel, as it was at first: glibc has none yet.
struct SchedulingAttributes {
  uint32_t size = 48;
  uint32_t policy = SCHED_OTHER;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime_ns = 0;  // the slice, of this policy
  uint64_t deadline_ns = 0, period_ns = 0;
};
static_assert(sizeof(SchedulingAttributes) == 48);

}  // namespace

void SetComputeThreads(int threads) { compute_threads = threads; }
int ComputeThreads() { return compute_threads; }

void UseThreads(int threads) {
#ifdef ASYRA_ONEDNN
  omp_set_num_threads(threads);
#else
  (void)threads;
#endif
}

void RunFirst() {
  sched_param lowest = {.sched_priority = sched_get_priority_min(SCHED_FIFO)};
  if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &lowest) == 0) {
    return;
  }
  SchedulingAttributes attributes;
  attributes.nice = getpriority(PRIO_PROCESS, 0);
  attributes.runtime_ns = kShortSliceNs;
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace asyra
