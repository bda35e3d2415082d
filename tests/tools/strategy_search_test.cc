#include "passes/strategy_search.h"

#include <algorithm>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/support/check.h"
#include "simulator/machine.h"
#include "tools/compile.h"

namespace asyra {
namespace {

using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;

constexpr double kGib = int64_t{1} << 30;

// In the order of the program, which is enough to compare strategies. Libraries
// take nothing: strategies differ in what values take, and in collectives by
// more.
CompileFlags Options() {
  CompileFlags options;
  options.model = "llama3-8b";
  options.dims = {"layers=2", "batch=2", "seq=8192", "vocabulary=8192",
                  "logits=1"};
  options.tp = 8;
  options.tp_strategy = "sequence";
  options.tiles = 1;
  options.scheduler = "serial";
  for (const char* key :
       {"context", "op", "collectives", "exchanges", "communicator", "rings",
        "trees", "peer", "workspace"}) {
    options.set.push_back(fmt::format("gpu.library_mib.{}=0", key));
  }
  return options;
}

struct Scheduled {
  absl::Status status;
  CompiledModel result;
};

Scheduled ScheduleIt(const CompileFlags& flags, const CompileOptions& options) {
  Scheduled made;
  Program& program = made.result.program;
  program = ASYRA_VALUE(LoadRaised(flags)).raised.program;
  program.mesh = ASYRA_VALUE(MeshOf(flags));
  CostModel costs(ASYRA_VALUE(LoadMachine(flags.machine, MachineEdits(flags))),
                  program.mesh, {});
  PassContext context{.costs = &costs};
  made.status = StrategySearch(options, context, &made.result).Run();
  return made;
}

Scheduled ScheduleIt(const CompileFlags& flags) {
  return ScheduleIt(flags, ASYRA_VALUE(OptionsOf(flags)));
}

double LeastGib(CompileFlags options) {
  double least = 1e9;
  CompiledModel result = ASYRA_VALUE(Compile(options));
  for (const ScheduleChoice& choice : result.schedule->candidates) {
    double gib = static_cast<double>(choice.device_bytes) / kGib;
    if (gib > 0) least = std::min(least, gib);
  }
  return least;
}

// Within a budget for `small` alone `large` is refused, and where `both` are
// compared rejected, as the candidate `name`.
void ExpectOnlySmallFits(const CompileFlags& small, CompileFlags large,
                         CompileFlags both, const std::string& name) {
  double small_gib = LeastGib(small), large_gib = LeastGib(large);
  ASSERT_LT(small_gib, large_gib);
  large.capacity_gib = both.capacity_gib = (small_gib + large_gib) / 2;
  EXPECT_THAT(std::string(ScheduleIt(large).status.message()),
              HasSubstr("no schedule found fits"));
  Scheduled made = ScheduleIt(both);
  ASSERT_TRUE(made.status.ok()) << made.status;
  EXPECT_THAT(made.result.schedule->candidates,
              Contains(AllOf(Field(&ScheduleChoice::name, name),
                             Field(&ScheduleChoice::rejected,
                                   HasSubstr("no schedule found fits")))));
}

TEST(StrategySearch, DecomposedReductionsMayNotFit) {
  CompileFlags fused = Options(), decomposed = Options(), both = Options();
  fused.reduce_scatter = "fused";
  decomposed.reduce_scatter = "decomposed";
  both.reduce_scatter = "auto";
  ExpectOnlySmallFits(fused, decomposed, both, "reduce-scatter decomposed");
}

TEST(StrategySearch, StrategiesThatWereNotAskedForMayNotFit) {
  CompileFlags sequence = Options();
  sequence.reduce_scatter = "fused";
  CompileFlags replicated = sequence, both = sequence;
  replicated.tp_strategy = "replicated";
  both.tp_strategy = "auto";
  ExpectOnlySmallFits(sequence, replicated, both, "tp-strategy replicated");
}

// A fault in a strategy that was not asked for is one all the same.
TEST(StrategySearch, FaultsAreNoCandidates) {
  CompileOptions options = ASYRA_VALUE(OptionsOf(Options()));
  PassManagerOptions& manager = options.manager;
  manager.print_after = "decompose_reduce_scatter";
  // What is decomposed is printed; what comes next, with this, cannot run.
  manager.print = [&](std::string_view) { manager.print_after = "("; };
  Scheduled made = ScheduleIt(Options(), options);
  EXPECT_EQ(made.status.message(),
            "reduce-scatter decomposed: --print-after: '(' is not a regular "
            "expression");
  options.reduce_scatter = "fused";
  manager.print_after = "decompose_reduce_scatter";
  made = ScheduleIt(Options(), options);
  EXPECT_TRUE(made.status.ok()) << made.status;
}

}  // namespace
}  // namespace asyra
