// Ends communicators of NCCL after a failure. ncclCommAbort tells the kernels
// of a communicator to end, then waits until no graph holds its collectives any
// longer and, in a process of several ranks, until all of them have called it:
// a rank that waited for it before it gave its own graphs back would wait for
// ever.
#pragma once

#include <future>
#include <vector>

#include "executor/cuda/device/cuda_status.h"

namespace asyra::cuda {

class CommAborts {
 public:
  // Returns at once; the kernels of `comm` end soon.
  void Begin(ncclComm_t comm);
  // Whether all have ended before so many seconds are over; what has not goes
  // on. Called where the graphs of this rank are gone.
  bool Wait(double timeout_s);

 private:
  std::vector<std::future<void>> ends_;
};

}  // namespace asyra::cuda
