// Ranks that TCP connects: threads here, which is nothing to it.
#include "executor/tcp/tcp_world.h"

#include <functional>
#include <thread>

#include "executor/cpu/cpu_device.h"
#include "executor/cpu/run_on_cpu.h"
#include "executor/executor.h"
#include "executor/tcp/socket.h"
#include "gmock/gmock.h"
#include "ir/interpreter.h"
#include "ir/parser.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "ir/verify/verifier.h"
#include "tests/executor/ranks.h"

namespace asyra {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using World = std::unique_ptr<Communicator>;

int FreePort() { return ASYRA_VALUE(Listener::Create("127.0.0.1", 0))->port(); }

std::vector<absl::Status> OnTcpRanks(
    int64_t ranks, double timeout_s,
    const std::function<absl::Status(World world)>& body) {
  int port = FreePort();
  std::vector<absl::Status> results(ranks);
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      auto world = ConnectTcp({"127.0.0.1", port, rank, ranks, timeout_s});
      results[rank] = world.ok() ? body(*std::move(world)) : world.status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

TEST(TcpWorld, ExchangesWhatRanksBring) {
  auto results = OnTcpRanks(4, 30, [](World world) -> absl::Status {
    for (int round = 0; round < 50; ++round) {
      std::string mine(round * 1000, static_cast<char>('a' + world->rank()));
      ASYRA_ASSIGN_OR_RETURN(std::vector<std::string> all,
                             world->Exchange(mine));
      for (int64_t r = 0; r < 4; ++r) {
        if (all[r] != std::string(round * 1000, static_cast<char>('a' + r))) {
          return Invalid("round {}: wrong bytes of rank {}", round, r);
        }
      }
    }
    return absl::OkStatus();
  });
  for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
}

TEST(TcpWorld, ARankThatFailsIsNamed) {
  auto results = OnTcpRanks(3, 30, [](World world) -> absl::Status {
    if (world->rank() == 2) {
      absl::Status cause = absl::InternalError("out of ideas");
      world->Abort(cause);
      return cause;
    }
    return world->Exchange("").status();
  });
  for (int r : {0, 1}) {
    EXPECT_THAT(results[r].ToString(),
                HasSubstr("rank 2 failed: out of ideas"));
  }
}

TEST(TcpWorld, ARankThatStallsIsNamed) {
  EndedRanks others;
  auto results = OnTcpRanks(3, 2, [&](World world) -> absl::Status {
    if (world->rank() == 1) others.Await(2);
    absl::Status status = world->Exchange("").status();
    if (!status.ok() && world->rank() == 0) world->Abort(status);
    others.Count();
    return status;
  });
  EXPECT_THAT(results[0].ToString(),
              HasSubstr("nothing was heard from rank 1 within 2 s"));
}

TEST(TcpWorld, KnowsWhoIsBehind) {
  auto results = OnTcpRanks(3, 30, [](World world) -> absl::Status {
    if (world->rank() != 2) world->BeginStep();
    ASYRA_RETURN_IF_ERROR(world->Exchange("").status());
    if (world->rank() != 0) return absl::OkStatus();
    std::vector<int64_t> behind = world->RanksBehind();
    return behind == std::vector<int64_t>{2}
               ? absl::OkStatus()
               : Invalid("{} are behind", behind.size());
  });
  for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
}

TEST(TcpWorld, RanksThatDoNotComeAreNamed) {
  auto world = ConnectTcp({"127.0.0.1", FreePort(), 0, 3, 0.2});
  EXPECT_THAT(world.status().ToString(), HasSubstr("ranks 1 2 have not come"));
  EXPECT_THAT(
      ConnectTcp({"127.0.0.1", FreePort(), 1, 3, 0.2}).status().ToString(),
      HasSubstr("nobody listens"));
  EXPECT_THAT(ConnectTcp({"no such host", 1, 1, 3, 0.2}).status().ToString(),
              HasSubstr("is not known"));
  EXPECT_FALSE(ConnectTcp({"127.0.0.1", 1, 3, 3, 0.2}).ok());
}

// Each kind of collective along both dimensions, joined, of nothing, in place,
// with groups that rank 0 is not in: the bytes that threads give.
TEST(TcpWorld, ComputesEveryCollective) {
  Program program = ASYRA_VALUE(ParseProgram(R"(asyra 1 local
mesh (dp=2, tp=2)
program @p(%x: f32[8@dp, 12@tp], %h: bf16[4, 6@tp], %n: i32[4@tp, 6],
    %l: f32[64@tp, 4095], %e: f32[2@tp, 0])
    -> (f32[8@dp, 12], f32[8@(dp,tp), 12], f32[8@dp, 12@tp], f32[],
        bf16[4], i32[4, 6], f32[4095], f32[0], f32[12@(tp,dp), 8]) {
  %g, %i = all_gather(%x, %x) {axes=tp, dim=1} : f32[8@dp, 12], f32[8@dp, 12]
  %a = all_to_all(%x) {axes=tp, from=1, to=0} : f32[8@(dp,tp), 12]
  %b = all_to_all(%a) {axes=tp, from=0, to=1} : f32[8@dp, 12@tp]
  %s = reduce_sum(%x) {dims=[0, 1], keep=false} : f32[] partial(dp,tp)
  %t = all_reduce(%s) {axes=(dp,tp)} : f32[]
  %hs = reduce_sum(%h) {dims=[1], keep=false} : bf16[4] partial(tp)
  %ht = all_reduce(%hs) {axes=tp} : bf16[4]
  %w = all_gather(%n) {axes=tp, dim=0} : i32[4, 6]
  %ls = reduce_sum(%l) {dims=[0], keep=false} : f32[4095] partial(tp)
  %es = reduce_sum(%e) {dims=[0], keep=false} : f32[0] partial(tp)
  %la, %ea = all_reduce(%ls, %es) {axes=tp} : f32[4095], f32[0]
  %xt = transpose(%x) {perm=[1, 0]} : f32[12@tp, 8@dp]
  %xa = all_to_all(%xt) {axes=dp, from=1, to=0} : f32[12@(tp,dp), 8]
  return %g, %a, %b, %t, %ht, %w, %la, %ea, %xa
}
)"));
  ASYRA_CHECK_OK(Verify(program));
  std::vector<Tensor> inputs = RandomInputs(program, 1, 4);
  auto threads = ASYRA_VALUE(RunOnCpu(program, inputs));
  auto results = OnTcpRanks(4, 30, [&](World world) -> absl::Status {
    ASYRA_ASSIGN_OR_RETURN(
        RunResult run, RunRankOnCpu(program, inputs, *world, {.repeat = 3}));
    for (size_t i = 0; i < threads.outputs.size(); ++i) {
      if (!SameBytes(run.outputs[i], threads.outputs[i])) {
        return Invalid("output {} differs", i);
      }
    }
    return absl::OkStatus();
  });
  for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
}

// Data on its way when a rank fails, and data that never comes.
TEST(TcpWorld, CollectivesEndWithTheRankThatIsLost) {
  Program program = ASYRA_VALUE(ParseProgram(R"(asyra 1 local
mesh (tp=3)
program @p(%x: f32[3@tp]) -> (f32[3]) {
  %g = all_gather(%x) {axes=tp, dim=0} : f32[3]
  return %g
}
)"));
  std::vector<Tensor> inputs = RandomInputs(program, 1, 4);
  for (bool stalls : {false, true}) {
    EndedRanks others;
    auto results = OnTcpRanks(3, stalls ? 2 : 30, [&](World world) {
      auto device = CreateCpuDevice();
      auto executor = ASYRA_VALUE(Executor::Load(program));
      absl::Status status = executor->Prepare(*device, world.get(), nullptr);
      if (!status.ok()) return status;
      if (world->rank() == 1) {
        if (stalls) others.Await(2);
        absl::Status cause = absl::InternalError("out of ideas");
        if (!stalls) world->Abort(cause);
        return cause;
      }
      status = executor->Step(
          {Shard(inputs[0], program.type(0), program.mesh, world->rank())});
      others.Count();
      return status;
    });
    for (int r : {0, 2}) {
      EXPECT_THAT(results[r].ToString(),
                  HasSubstr(stalls ? "rank 1 did not come within 2 s"
                                   : "rank 1 failed: out of ideas"));
    }
  }
}

TEST(TcpWorld, OneRankIsAWorld) {
  auto results = OnTcpRanks(1, 5, [](World world) -> absl::Status {
    ASYRA_ASSIGN_OR_RETURN(std::vector<std::string> all, world->Exchange("x"));
    return all == std::vector<std::string>{"x"} ? absl::OkStatus()
                                                : Invalid("wrong bytes");
  });
  EXPECT_TRUE(results[0].ok()) << results[0];
}

}  // namespace
}  // namespace asyra
