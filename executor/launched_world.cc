#include "executor/launched_world.h"

#include <cstdlib>
#include <optional>

#include "executor/comm/launcher.h"
#include "executor/comm/rank_error.h"
#include "executor/comm/secret.h"
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

// A secret that nobody asks for would be a false promise.
absl::Status NoSecret(const LaunchOptions& options, std::string_view ranks) {
  if (options.secret_file.empty()) return absl::OkStatus();
  return Invalid(
      "a secret is given in {}, and {}: only the communicator tcp asks for one",
      options.secret_file, ranks);
}

absl::StatusOr<std::unique_ptr<Communicator>> ConnectByTcp(
    const LaunchOptions& options, const LaunchedRank& launched) {
  ASYRA_ASSIGN_OR_RETURN(Rendezvous meet, FindRendezvous(launched));
  ASYRA_ASSIGN_OR_RETURN(std::string secret,
                         FindSecret(options.secret_file, [](const char* name) {
                           return std::getenv(name);
                         }));
  return ConnectTcp({.host = meet.host,
                     .port = meet.port,
                     .rank = launched.rank,
                     .size = launched.ranks,
                     .timeout_s = options.timeout_s,
                     .secret = secret,
                     .listen = meet.listen});
}

absl::StatusOr<std::unique_ptr<Communicator>> Connect(
    const LaunchOptions& options, const std::optional<LaunchedRank>& launched) {
  if (AreThreads(options, launched)) {
    ASYRA_RETURN_IF_ERROR(NoSecret(options, "the ranks are threads"));
    return nullptr;
  }
  bool many = HasMany(launched);
  bool tcp = options.communicator == "tcp" ||
             (options.communicator == "auto" &&
              (launched->launcher == Launcher::kTorchrun || !HasMpi()));
  if (tcp) {
    if (!many) {
      return Invalid("communicator tcp: no launcher has started ranks");
    }
    return ConnectByTcp(options, *launched);
  }
  ASYRA_RETURN_IF_ERROR(NoSecret(options, "MPI connects the ranks"));
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
  absl::StatusOr<std::unique_ptr<Communicator>> world =
      Connect(options, launched);
  if (!world.ok() && HasMany(launched)) {
    return NameRank(launched->rank, world.status());
  }
  if (!world.ok()) return world.status();
  found.world = *std::move(world);
  return found;
}

}  // namespace asyra
