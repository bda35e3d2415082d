#include "executor/comm/launcher.h"

#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "ir/support/host_name.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

// The variables of one launcher; null: it does not set that one.
struct Names {
  Launcher launcher;
  const char *rank, *ranks, *local_rank, *local_ranks;
};

constexpr Names kLaunchers[] = {
    {Launcher::kOpenMpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {Launcher::kTorchrun, "RANK", "WORLD_SIZE", "LOCAL_RANK",
     "LOCAL_WORLD_SIZE"},
    {Launcher::kSlurm, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
     nullptr},
};

absl::StatusOr<int64_t> Number(const Environment& environment,
                               const char* name) {
  const char* text = environment(name);
  int64_t number = 0;
  if (text == nullptr) return NotFound("{} is not set", name);
  if (absl::SimpleAtoi(text, &number) && number >= 0) return number;
  return Invalid("{} is '{}', it must be a number", name, text);
}

// Slurm writes how many tasks each node has, runs of equal nodes as one:
// "8(x2),4" for 8, 8 and 4.
absl::StatusOr<int64_t> SlurmTasksHere(const Environment& environment) {
  ASYRA_ASSIGN_OR_RETURN(int64_t node, Number(environment, "SLURM_NODEID"));
  const char* text = environment("SLURM_STEP_TASKS_PER_NODE");
  if (text == nullptr) return NotFound("SLURM_STEP_TASKS_PER_NODE is not set");
  int64_t first = 0;
  for (absl::string_view run : absl::StrSplit(text, ',')) {
    size_t times = run.find("(x");
    int64_t tasks = 0, nodes = 1;
    bool fits = absl::SimpleAtoi(run.substr(0, times), &tasks);
    if (times != absl::string_view::npos) {
      absl::string_view repeated = run.substr(times + 2);
      fits &= absl::ConsumeSuffix(&repeated, ")") &&
              absl::SimpleAtoi(repeated, &nodes);
    }
    if (!fits) return Invalid("SLURM_STEP_TASKS_PER_NODE is '{}'", text);
    first += nodes;
    if (node < first) return tasks;
  }
  return Invalid("SLURM_NODEID is {}, SLURM_STEP_TASKS_PER_NODE '{}' has {}",
                 node, text, first);
}

std::string Host(const Environment& environment) {
  for (const char* name : {"SLURMD_NODENAME", "HOSTNAME"}) {
    const char* host = environment(name);
    if (host != nullptr && *host != 0) return host;
  }
  return HostName();
}

absl::StatusOr<LaunchedRank> Read(const Names& names,
                                  const Environment& environment) {
  LaunchedRank found{.launcher = names.launcher, .host = Host(environment)};
  ASYRA_ASSIGN_OR_RETURN(found.rank, Number(environment, names.rank));
  ASYRA_ASSIGN_OR_RETURN(found.ranks, Number(environment, names.ranks));
  ASYRA_ASSIGN_OR_RETURN(found.local_rank,
                         Number(environment, names.local_rank));
  if (names.local_ranks != nullptr) {
    ASYRA_ASSIGN_OR_RETURN(found.local_ranks,
                           Number(environment, names.local_ranks));
  } else {
    ASYRA_ASSIGN_OR_RETURN(found.local_ranks, SlurmTasksHere(environment));
  }
  if (found.rank >= found.ranks) {
    return Invalid("{} is {}, {} is {}", names.rank, found.rank, names.ranks,
                   found.ranks);
  }
  if (found.local_rank >= found.local_ranks) {
    return Invalid("{} is {}, of {} ranks on host {}", names.local_rank,
                   found.local_rank, found.local_ranks, found.host);
  }
  return found;
}

}  // namespace

std::string_view ToString(Launcher launcher) {
  switch (launcher) {
    case Launcher::kOpenMpi:
      return "Open MPI";
    case Launcher::kSlurm:
      return "Slurm";
    case Launcher::kTorchrun:
      break;
  }
  return "torchrun";
}

absl::StatusOr<std::optional<LaunchedRank>> FindLaunchedRank(
    const Environment& environment) {
  for (const Names& names : kLaunchers) {
    bool is_set = environment(names.rank) != nullptr &&
                  environment(names.ranks) != nullptr;
    if (!is_set) continue;
    absl::StatusOr<LaunchedRank> found = Read(names, environment);
    if (found.ok()) return *found;
    return Annotate(found.status(),
                    fmt::format("environment of {}", ToString(names.launcher)));
  }
  return std::nullopt;
}

absl::StatusOr<Rendezvous> FindRendezvous(const LaunchedRank& rank,
                                          const Environment& environment) {
  Rendezvous found;
  if (const char* host = environment("MASTER_ADDR"); host != nullptr) {
    found.host = host;
  } else if (rank.ranks > rank.local_ranks) {
    return Invalid(
        "MASTER_ADDR is not set, and of {} ranks only {} are on host {}: where "
        "is rank 0?",
        rank.ranks, rank.local_ranks, rank.host);
  }
  if (const char* listen = environment("ASYRA_LISTEN"); listen != nullptr) {
    found.listen = listen;
  }
  if (environment("MASTER_PORT") == nullptr) return found;
  ASYRA_ASSIGN_OR_RETURN(int64_t port, Number(environment, "MASTER_PORT"));
  if (environment("TORCHELASTIC_USE_AGENT_STORE") != nullptr) ++port;
  if (port < 1 || port > 65535) {
    return Invalid("MASTER_PORT is {}, ports are from 1 to 65535", port);
  }
  found.port = static_cast<int>(port);
  return found;
}

absl::StatusOr<std::optional<LaunchedRank>> FindLaunchedRank() {
  return FindLaunchedRank([](const char* name) { return std::getenv(name); });
}

absl::StatusOr<Rendezvous> FindRendezvous(const LaunchedRank& rank) {
  return FindRendezvous(rank,
                        [](const char* name) { return std::getenv(name); });
}

}  // namespace asyra
