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
  // The address at which rank 0 listens, and the others find it.
  std::string host = "127.0.0.1";
  int port = 29500;
  int64_t rank = 0, size = 1;
  // A rank that is waited for longer is lost.
  double timeout_s = 60;
  // Known to the ranks of this job alone (executor/comm/secret.h).
  std::string secret = "";
  // The address at which rank 0 listens, if not `host`: "0.0.0.0" is all
  // addresses.
  std::string listen = "";
};

// Waits until all ranks are connected. A connection that does not show the
// secret, states another world size or a rank that is connected, or says
// nothing for 2 s is dropped, and counted in the error if ranks are missing in
// the end. Then nobody listens any more.
//
// A rank whose process ends is noticed at once, by the others through rank 0.
// One that is stopped is named after the timeout, also by ranks that wait for
// another one, and in the middle of a message: messages may not stand still for
// longer than the timeout in either direction.
//
// The destructor waits for the other ranks' destructors, as long as the timeout
// at most; not after a failure.
// Errors: a port in use; ranks that are missing, by number; for the rank that
// is dropped, why.
absl::StatusOr<std::unique_ptr<Communicator>> ConnectTcp(
    const TcpWorldOptions& options);

}  // namespace asyra
