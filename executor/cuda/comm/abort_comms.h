// Ends communicators of NCCL after a failure. ncclCommAbort tells the kernels
// of a communicator to end, then waits until no graph holds its collectives
// and, in a process of several ranks, until all of them have called it. A rank
// that called it synchronously before destroying its own graphs would therefore
// deadlock.
#pragma once

#include <future>
#include <vector>

#include "executor/cuda/device/cuda_status.h"

namespace asyra::cuda {

class CommAborts {
 public:
  // Returns at once; the kernels of `comm` end soon.
  void Begin(ncclComm_t comm);
  // Returns whether all have ended within so many seconds; the others continue
  // to end in the background. Called after the graphs of this rank are
  // destroyed.
  bool Wait(double timeout_s);

 private:
  std::vector<std::future<void>> ends_;
};

}  // namespace asyra::cuda
