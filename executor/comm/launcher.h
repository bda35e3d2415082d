// The rank that a launcher has given this process, as its environment says.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "ir/support/environment.h"

namespace asyra {

enum class Launcher : uint8_t { kOpenMpi, kSlurm, kTorchrun };

std::string_view ToString(Launcher launcher);

struct LaunchedRank {
  Launcher launcher = Launcher::kOpenMpi;
  int64_t rank = 0, ranks = 1;
  int64_t local_rank = 0, local_ranks = 1;  // of those on this host
  std::string host;
};

// None if no launcher has started this process. If several have set variables
// (mpirun inside a Slurm job), the innermost counts: Open MPI, then torchrun,
// then Slurm. Variables read:
//
//   Open MPI  OMPI_COMM_WORLD_{RANK,SIZE,LOCAL_RANK,LOCAL_SIZE}
//   torchrun  RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE
//   Slurm     SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID,
//             SLURM_STEP_TASKS_PER_NODE, SLURM_NODEID; a batch script is no
//             step, and so no rank
//
// The host is SLURMD_NODENAME, HOSTNAME, or what the system says. Errors: a
// variable that is no number, a rank beyond the ranks; both are named.
absl::StatusOr<std::optional<LaunchedRank>> FindLaunchedRank(
    const Environment& environment);
// Address of rank 0: MASTER_ADDR and MASTER_PORT, as torchrun sets them;
// 127.0.0.1 and 29500 if they are not set and all ranks are on one host. Under
// torchrun the next port is used, since its agent listens at MASTER_PORT. Rank
// 0 listens at that address alone; where it has another one on its own host, as
// behind a translation of addresses, ASYRA_LISTEN gives it.
// Errors: ranks on several hosts without an address, an invalid port.
struct Rendezvous {
  std::string host = "127.0.0.1";
  int port = 29500;
  std::string listen;  // empty: at the host
};
absl::StatusOr<Rendezvous> FindRendezvous(const LaunchedRank& rank,
                                          const Environment& environment);

// Both read the environment of this process.
absl::StatusOr<Rendezvous> FindRendezvous(const LaunchedRank& rank);
absl::StatusOr<std::optional<LaunchedRank>> FindLaunchedRank();

}  // namespace asyra
