// The ranks of a run: threads of one process, or processes that mpirun, srun or
// torchrun has started.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "executor/comm/communicator.h"

namespace asyra {

struct LaunchOptions {
  // local: the ranks are threads; mpi, tcp: processes on cpus or GPUs; auto: by
  // what the environment says.
  std::string communicator = "auto";
  std::string device = "cpu";
  double timeout_s = 60;
  // A file with the secret of the job, for tcp (executor/comm/secret.h); empty:
  // the environment has it.
  std::string secret_file = "";
  double inject_comm_us = 0;  // as MpiWorldOptions has it
  // The flag of this name in MpiWorldOptions.
  const std::atomic<bool>* asked_to_end = nullptr;
  // Called before MPI is begun; may be empty.
  std::function<void()> before_mpi = nullptr;
};

struct LaunchedWorld {
  std::unique_ptr<Communicator> world;  // null: the ranks are threads
  // Position of this rank among those of its host, and their number; 0 where no
  // launcher says.
  int64_t local_rank = 0, ranks_on_host = 0;
};

// Returns whether ConnectLaunched will find processes, without connecting them.
// Errors: those of finding the ranks.
absl::StatusOr<bool> RanksAreProcesses(const LaunchOptions& options);

// Errors: a launcher that the communicator does not go with; a file with a
// secret for one that asks for none; those of finding and connecting the
// ranks, which begin with the rank.
absl::StatusOr<LaunchedWorld> ConnectLaunched(const LaunchOptions& options);

}  // namespace asyra
