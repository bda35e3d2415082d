#include "executor/launched_world.h"

#include <optional>

#include "executor/comm/launcher.h"
#include "executor/mpi/mpi_world.h"
#include "executor/tcp/tcp_world.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

bool HasMany(const std::optional<LaunchedRank>& launched) {
  return launched.has_value() && launched->ranks > 1;
}

bool AreThreads(const LaunchOptions& options,
                const std::optional<LaunchedRank>& launched) {
  return options.communicator == "local" || options.device == "interpreter" ||
         (options.communicator == "auto" && !HasMany(launched));
}

absl::StatusOr<std::unique_ptr<Communicator>> Connect(
    const LaunchOptions& options, const std::optional<LaunchedRank>& launched) {
  if (AreThreads(options, launched)) return nullptr;
  bool many = HasMany(launched);
  bool tcp = options.communicator == "tcp" ||
             (options.communicator == "auto" &&
              (launched->launcher == Launcher::kTorchrun || !HasMpi()));
  if (tcp) {
    if (!many) {
      return Invalid("communicator tcp: no launcher has started ranks");
    }
    ASYRA_ASSIGN_OR_RETURN(Rendezvous meet, FindRendezvous(*launched));
    return ConnectTcp({meet.host, meet.port, launched->rank, launched->ranks,
                       options.timeout_s});
  }
  if (many && launched->launcher == Launcher::kTorchrun) {
    return Invalid(
        "torchrun has started {} ranks, which MPI does not know: "
        "start them with mpirun or srun",
        launched->ranks);
  }
  if (options.before_mpi) options.before_mpi();
  ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> world,
                         ConnectMpi({.timeout_s = options.timeout_s,
                                     .inject_comm_us = options.inject_comm_us,
                                     .asked_to_end = options.asked_to_end}));
  if (many && world->size() != launched->ranks) {
    return Invalid("{} has started {} ranks, MPI finds {}",
                   ToString(launched->launcher), launched->ranks,
                   world->size());
  }
  return world;
}

}  // namespace

absl::StatusOr<bool> RanksAreProcesses(const LaunchOptions& options) {
  ASYRA_ASSIGN_OR_RETURN(std::optional<LaunchedRank> launched,
                         FindLaunchedRank());
  return !AreThreads(options, launched);
}

absl::StatusOr<LaunchedWorld> ConnectLaunched(const LaunchOptions& options) {
  ASYRA_ASSIGN_OR_RETURN(std::optional<LaunchedRank> launched,
                         FindLaunchedRank());
  LaunchedWorld found;
  if (launched.has_value()) {
    found.local_rank = launched->local_rank;
    found.ranks_on_host = launched->local_ranks;
  }
  ASYRA_ASSIGN_OR_RETURN(found.world, Connect(options, launched));
  return found;
}

}  // namespace asyra
