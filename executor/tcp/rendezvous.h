// Rendezvous: the ranks of a TCP world find each other.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/tcp/socket.h"
#include "executor/tcp/tcp_world.h"

namespace asyra {

// Connects rank 0 to all others; connections are by rank. They are accepted and
// read side by side, each of which has 2 s for its hello. One that is no rank
// of this world is dropped, and counted in the error of a timeout.
// Errors: a port in use; ranks that have not come, which those that have are
// told.
absl::StatusOr<std::vector<std::unique_ptr<Socket>>> AcceptRanks(
    const TcpWorldOptions& options);

// Connects another rank to rank 0. Tries again where the connection ends
// without an answer. Errors: nobody who listens; who listens does not know the
// secret; rank 0 does not let this rank in, and says why.
absl::StatusOr<std::unique_ptr<Socket>> JoinRanks(
    const TcpWorldOptions& options);

}  // namespace asyra
