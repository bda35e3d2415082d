#include "executor/cpu/threads.h"

#ifdef ASYRA_ONEDNN
#include <omp.h>
#endif

namespace asyra {

void SetComputeThreads(int threads) {
#ifdef ASYRA_ONEDNN
  omp_set_num_threads(threads);
#else
  (void)threads;
#endif
}

}  // namespace asyra
