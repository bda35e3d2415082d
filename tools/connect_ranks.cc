#include "tools/connect_ranks.h"

#include "CLI/CLI.hpp"
#include "executor/comm/rank_error.h"

namespace asyra {

void AddRankFlags(CLI::App& app, std::string* communicator,
                  std::string* secret_file) {
  app.add_option("--communicator", *communicator,
                 "between ranks. local: threads of this process; mpi: "
                 "processes started by mpirun or srun; tcp: processes started "
                 "by torchrun or srun; auto: by how they were started")
      ->check(CLI::IsMember({"auto", "local", "mpi", "tcp"}))
      ->capture_default_str();
  app.add_option("--secret", *secret_file,
                 "FILE with a word that only the ranks of this job know, where "
                 "TCP connects them; by default ASYRA_SECRET_FILE, "
                 "ASYRA_SECRET, or the launcher's name of the job");
}

absl::StatusOr<LaunchedWorld> ConnectRanks(const LaunchOptions& options,
                                           const absl::Status& checked) {
  absl::StatusOr<LaunchedWorld> connected = ConnectLaunched(options);
  if (!connected.ok() && !checked.ok()) return checked;
  return connected;
}

absl::Status RunAgreed(Communicator* world,
                       const std::vector<NamedChoice>& choices,
                       const absl::Status& checked,
                       absl::FunctionRef<absl::Status()> body) {
  absl::Status status =
      world == nullptr ? absl::OkStatus() : CheckSameChoices(*world, choices);
  if (status.ok()) status = checked;
  if (status.ok()) status = body();
  if (status.ok() || world == nullptr) return status;
  world->Abort(status);
  return NameRank(world->rank(), status);
}

}  // namespace asyra
