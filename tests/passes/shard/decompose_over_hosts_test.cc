// Which collectives become hierarchical; what comes out is in
// tests/fixtures/decompose_over_hosts.
#include "passes/shard/decompose_over_hosts.h"

#include <string>
#include <tuple>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "simulator/cost/cost_model.h"
#include "simulator/cost/load_machine.h"

namespace asyra {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A gather of `kib` KiB over `dp` devices.
Program Gather(int64_t dp, int64_t kib) {
  return ASYRA_VALUE(ParseProgram(fmt::format(R"(asyra 1 local
mesh (dp={0})
program @p(%x: f32[{1}@dp]) -> (f32[{1}]) {{
  %y = all_gather(%x) {{dim=0, axes=dp}} : f32[{1}]
  return %y
}}
)",
                                              dp, kib * 256)));
}

struct Outcome {
  absl::StatusOr<bool> changed = false;
  PassContext context;
};

Outcome Decompose(const char* machine, const PassOptions& options,
                  Program* program) {
  CostModel costs(ASYRA_VALUE(LoadMachine(machine)), program->mesh);
  Outcome outcome;
  outcome.context.costs = &costs;
  outcome.changed = DecomposeOverHosts(*program, options, outcome.context);
  return outcome;
}

const PassOptions kDefault = {{"host", int64_t{0}}, {"always", false}};

TEST(DecomposeOverHosts, WhereBytesTakeMoreThanLatency) {
  for (auto [dp, kib, changes] :
       std::vector<std::tuple<int, int, bool>>{{16, 65536, true},
                                               {32, 65536, true},
                                               {16, 64, false},
                                               {8, 65536, false}}) {
    Program program = Gather(dp, kib);
    std::string before = ToString(program);
    Outcome outcome = Decompose("a800x8", kDefault, &program);
    EXPECT_EQ(ASYRA_VALUE(outcome.changed), changes) << dp << ", " << kib;
    EXPECT_EQ(ToString(program) != before, changes);
  }
}

TEST(DecomposeOverHosts, CostsAreOverTheNewMesh) {
  Program program = Gather(16, 65536);
  Outcome outcome = Decompose("a800x8", kDefault, &program);
  ASSERT_TRUE(ASYRA_VALUE(outcome.changed));
  EXPECT_EQ(ToString(program.mesh), "(dp.hosts=2, dp=8)");
  EXPECT_EQ(outcome.context.costs, outcome.context.own_costs.get());
  EXPECT_EQ(outcome.context.costs->mesh(), program.mesh);
  EXPECT_THAT(outcome.context.remarks,
              ElementsAre("decompose_over_hosts: 1 of 1 made collectives "
                          "inside hosts of 8 and across them"));
}

TEST(DecomposeOverHosts, SaysWhyNothingChanges) {
  Program small = Gather(16, 64), one_host = Gather(8, 65536);
  EXPECT_THAT(Decompose("a800x8", kDefault, &small).context.remarks,
              ElementsAre("decompose_over_hosts: none of 1 over several "
                          "devices of several hosts takes more than latency"));
  EXPECT_THAT(Decompose("a800x8", kDefault, &one_host).context.remarks,
              ElementsAre("decompose_over_hosts: none of 0 over several "
                          "devices of several hosts"));
}

TEST(DecomposeOverHosts, ASecondTimeThereAreNone) {
  Program program = Gather(16, 65536);
  PassOptions always = {{"host", int64_t{8}}, {"always", true}};
  PassContext context;
  EXPECT_TRUE(ASYRA_VALUE(DecomposeOverHosts(program, always, context)));
  EXPECT_FALSE(ASYRA_VALUE(DecomposeOverHosts(program, always, context)));
}

TEST(DecomposeOverHosts, CostsDependOnTheMachine) {
  Program program = Gather(16, 65536);
  for (const PassOptions& options :
       {kDefault, PassOptions{{"host", int64_t{0}}, {"always", true}},
        PassOptions{{"host", int64_t{8}}, {"always", false}}}) {
    PassContext context;
    auto changed = DecomposeOverHosts(program, options, context);
    EXPECT_THAT(
        std::string(changed.status().message()),
        HasSubstr(
            "needs costs of a machine: there are none in PassContext::costs"));
  }
}

}  // namespace
}  // namespace asyra
