// A world whose ranks are processes without MPI: started by torchrun, srun or
// by hand. Every rank has a connection to rank 0, which forwards messages.
// Between GPUs it is the control plane, and NCCL, bootstrapped through it,
// carries collectives. Between cpus it carries them itself, all through rank 0:
// right for small runs, and slower than MPI.
#pragma once

#include <memory>
#include <string>

#include "executor/comm/communicator.h"

namespace asyra {

struct TcpWorldOptions {
  // Where rank 0 listens, and the others find it.
  std::string host = "127.0.0.1";
  int port = 29500;
  int64_t rank = 0, size = 1;
  // A rank that is waited for longer is lost.
  double timeout_s = 60;
};

// Waits until all ranks are connected. A rank whose process ends is noticed at
// once, by the others through rank 0.
//
// The destructor waits for the other ranks' destructors, as long as the timeout
// at most; not after a failure.
// Errors: a port in use; ranks that are missing, connect twice or state another
// world size, by number.
absl::StatusOr<std::unique_ptr<Communicator>> ConnectTcp(
    const TcpWorldOptions& options);

}  // namespace asyra
