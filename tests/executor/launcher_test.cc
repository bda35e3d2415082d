#include "executor/comm/launcher.h"

#include <map>

#include "gtest/gtest.h"
#include "ir/support/check.h"

namespace asyra {
namespace {

using Variables = std::map<std::string, std::string>;

absl::StatusOr<std::optional<LaunchedRank>> Find(const Variables& variables) {
  return FindLaunchedRank([&](const char* name) {
    auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "5"},
                            {"OMPI_COMM_WORLD_SIZE", "8"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                            {"HOSTNAME", "node7"}};
const Variables kTorchrun = {{"RANK", "3"},
                             {"WORLD_SIZE", "4"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "2"}};
const Variables kSlurm = {{"SLURM_PROCID", "17"},
                          {"SLURM_STEP_NUM_TASKS", "20"},
                          {"SLURM_LOCALID", "1"},
                          {"SLURM_NODEID", "2"},
                          {"SLURM_STEP_TASKS_PER_NODE", "8(x2),4"},
                          {"SLURMD_NODENAME", "cn02"}};

TEST(Launcher, NoneIsNoRank) {
  EXPECT_FALSE(ASYRA_VALUE(Find({})).has_value());
  // A batch script has a number, but is no step.
  EXPECT_FALSE(ASYRA_VALUE(Find({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}))
                   .has_value());
}

TEST(Launcher, OpenMpi) {
  LaunchedRank rank = *ASYRA_VALUE(Find(kOpenMpi));
  EXPECT_EQ(rank.launcher, Launcher::kOpenMpi);
  EXPECT_EQ(rank.rank, 5);
  EXPECT_EQ(rank.ranks, 8);
  EXPECT_EQ(rank.local_rank, 1);
  EXPECT_EQ(rank.local_ranks, 4);
  EXPECT_EQ(rank.host, "node7");
}

TEST(Launcher, Torchrun) {
  LaunchedRank rank = *ASYRA_VALUE(Find(kTorchrun));
  EXPECT_EQ(rank.launcher, Launcher::kTorchrun);
  EXPECT_EQ(rank.rank, 3);
  EXPECT_EQ(rank.ranks, 4);
  EXPECT_EQ(rank.local_rank, 1);
  EXPECT_EQ(rank.local_ranks, 2);
  EXPECT_FALSE(rank.host.empty());
}

TEST(Launcher, SlurmCountsTasksNodeByNode) {
  LaunchedRank rank = *ASYRA_VALUE(Find(kSlurm));
  EXPECT_EQ(rank.launcher, Launcher::kSlurm);
  EXPECT_EQ(rank.rank, 17);
  EXPECT_EQ(rank.local_ranks, 4);
  EXPECT_EQ(rank.host, "cn02");
  Variables first = kSlurm;
  first["SLURM_NODEID"] = "1";
  EXPECT_EQ((*ASYRA_VALUE(Find(first))).local_ranks, 8);
}

TEST(Launcher, TheInnermostCounts) {
  Variables both = kSlurm;
  both.insert(kOpenMpi.begin(), kOpenMpi.end());
  EXPECT_EQ((*ASYRA_VALUE(Find(both))).launcher, Launcher::kOpenMpi);
}

TEST(Launcher, WhatIsWrongIsNamed) {
  auto error = [](Variables variables, const char* name, const char* value) {
    variables[name] = value;
    return Find(variables).status().ToString();
  };
  EXPECT_NE(error(kOpenMpi, "OMPI_COMM_WORLD_RANK", "one")
                .find("environment of Open MPI: OMPI_COMM_WORLD_RANK is 'one'"),
            std::string::npos);
  EXPECT_NE(error(kOpenMpi, "OMPI_COMM_WORLD_RANK", "8")
                .find("OMPI_COMM_WORLD_RANK is 8, OMPI_COMM_WORLD_SIZE is 8"),
            std::string::npos);
  EXPECT_NE(
      error(kTorchrun, "LOCAL_RANK", "2").find("LOCAL_RANK is 2, of 2 ranks"),
      std::string::npos);
  EXPECT_NE(error(kSlurm, "SLURM_STEP_TASKS_PER_NODE", "8(x2")
                .find("SLURM_STEP_TASKS_PER_NODE is '8(x2'"),
            std::string::npos);
  EXPECT_NE(error(kSlurm, "SLURM_NODEID", "3").find("SLURM_NODEID is 3"),
            std::string::npos);
  Variables half = kTorchrun;
  half.erase("LOCAL_RANK");
  EXPECT_NE(Find(half).status().ToString().find("LOCAL_RANK is not set"),
            std::string::npos);
}

TEST(Launcher, WhereRanksMeet) {
  Variables variables;
  auto find = [&](int64_t local_ranks) {
    return FindRendezvous(
        {.ranks = 4, .local_ranks = local_ranks, .host = "here"},
        [&](const char* name) {
          auto found = variables.find(name);
          return found == variables.end() ? nullptr : found->second.c_str();
        });
  };
  auto listen = [&] { return find(2).value().listen; };
  auto meet = [&](int64_t local_ranks) -> std::string {
    absl::StatusOr<Rendezvous> at = find(local_ranks);
    return at.ok() ? at->host + ":" + std::to_string(at->port)
                   : at.status().ToString();
  };
  EXPECT_EQ(meet(4), "127.0.0.1:29500");
  EXPECT_NE(meet(2).find("MASTER_ADDR is not set"), std::string::npos);
  variables = {{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "1234"}};
  EXPECT_EQ(meet(2), "node1:1234");
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  EXPECT_EQ(meet(2), "node1:1235");
  EXPECT_EQ(listen(), "");
  variables["ASYRA_LISTEN"] = "0.0.0.0";
  EXPECT_EQ(listen(), "0.0.0.0");
  variables["MASTER_PORT"] = "65535";
  EXPECT_NE(meet(2).find("MASTER_PORT is 65536"), std::string::npos);
}

}  // namespace
}  // namespace asyra
