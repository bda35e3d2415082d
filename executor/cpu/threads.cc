#include "executor/cpu/threads.h"

#ifdef ASYRA_ONEDNN
#include <omp.h>
#endif

namespace asyra {
namespace {

thread_local int compute_threads = 1;

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

}  // namespace asyra
