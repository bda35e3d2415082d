#include "passes/search/strategy_search.h"

#include <algorithm>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/support/check.h"
#include "simulator/cost/load_machine.h"
#include "simulator/machine/machine.h"
#include "tools/compile.h"

namespace asyra {
namespace {

using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::Not;

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
  CompileFlags fused = Options();
  fused.machine = "h100x8";
  CompileFlags decomposed = fused, both = fused;
  fused.reduce_scatter = "fused";
  decomposed.reduce_scatter = "decomposed";
  both.reduce_scatter = "auto";
  ExpectOnlySmallFits(fused, decomposed, both, "reduce-scatter decomposed");
}

TEST(StrategySearch, StrategiesThatWereNotAskedForMayNotFit) {
  CompileFlags sequence = Options();
  sequence.machine = "h100x8";
  sequence.reduce_scatter = "fused";
  CompileFlags replicated = sequence, both = sequence;
  replicated.tp_strategy = "replicated";
  both.tp_strategy = "auto";
  ExpectOnlySmallFits(sequence, replicated, both, "tp-strategy replicated");
}

CompileFlags Training() {
  CompileFlags options;
  options.model = "llama3-8b";
  options.dims = {"layers=2", "batch=8", "seq=2048", "vocabulary=8192"};
  options.dp = 8;
  options.train.emplace();
  options.tiles = 1;
  options.search_steps = 200;
  return options;
}

CompiledModel TrainedWith(CompileFlags options, const std::string& zero) {
  options.train->zero = zero;
  return ASYRA_VALUE(Compile(options));
}

// Whatever the estimate says, the schedule of every level decides.
TEST(StrategySearch, LevelsOfZeroAreCompared) {
  double fastest = 1e9, slowest = 0;
  for (const char* zero : {"0", "2", "3"}) {
    double us = TrainedWith(Training(), zero).schedule->optimized.makespan_us;
    fastest = std::min(fastest, us);
    slowest = std::max(slowest, us);
  }
  EXPECT_GT(slowest, 1.02 * fastest) << "the level makes no difference";
  CompiledModel open = TrainedWith(Training(), "auto");
  EXPECT_LE(open.schedule->optimized.makespan_us, 1.001 * fastest);
  EXPECT_THAT(open.schedule->candidates,
              Contains(Field(&ScheduleChoice::name, HasSubstr("zero 3"))));
}

// A budget that only the parts of parameters leave room for.
TEST(StrategySearch, LevelsOfZeroFitTheBudget) {
  CompileFlags options = Training();
  options.scheduler = "serial";
  auto bytes = [](const CompiledModel& model) {
    for (const ScheduleChoice& choice : model.schedule->candidates) {
      if (choice.rejected.empty()) return choice.device_bytes;
    }
    return int64_t{0};
  };
  auto of_0 = static_cast<double>(bytes(TrainedWith(options, "0")));
  auto of_3 = static_cast<double>(bytes(TrainedWith(options, "3")));
  ASSERT_LT(of_3, 0.8 * of_0);
  options.capacity_gib = 1.05 * of_3 / kGib;
  CompiledModel fits = TrainedWith(options, "auto");
  EXPECT_TRUE(fits.schedule->fits);
  EXPECT_LE(static_cast<double>(bytes(fits)), 1.05 * of_3);
  options.capacity_gib = 0.5 * of_3 / kGib;
  options.train->zero = "auto";
  absl::StatusOr<CompiledModel> none = Compile(options);
  EXPECT_TRUE(absl::IsResourceExhausted(none.status())) << none.status();
}

// Two hosts of eight, and layers whose collectives take longer than they do.
CompileFlags OverHosts() {
  CompileFlags options = Training();
  options.dims = {"layers=2", "batch=16", "seq=2048", "vocabulary=8192"};
  options.machine = "a800x8";
  options.dp = 16;
  options.train->zero = "3";
  return options;
}

TEST(StrategySearch, CollectivesOverHostsAreCompared) {
  CompileFlags options = OverHosts();
  options.over_hosts = "flat";
  CompiledModel flat = ASYRA_VALUE(Compile(options));
  EXPECT_EQ(ToString(flat.program.mesh), "(dp=16)");
  options.over_hosts = "auto";
  CompiledModel open = ASYRA_VALUE(Compile(options));
  EXPECT_EQ(ToString(open.program.mesh), "(dp.hosts=2, dp=8)");
  EXPECT_EQ(open.partitioned->mesh, open.program.mesh);
  EXPECT_EQ(open.costs->mesh(), open.program.mesh);
  EXPECT_LT(open.schedule->optimized.makespan_us,
            0.95 * flat.schedule->optimized.makespan_us);
  EXPECT_NEAR(open.schedule->baseline.makespan_us,
              flat.schedule->baseline.makespan_us, 1e-6);
  EXPECT_THAT(open.schedule->candidates,
              Contains(AllOf(Field(&ScheduleChoice::name,
                                   HasSubstr("hierarchical over hosts")),
                             Field(&ScheduleChoice::rejected, ""))));
}

// Also those of other strategies, as long as they keep the same params.
TEST(StrategySearch, RunnersUpCanTakeTheProgramsPlace) {
  CompileFlags options = OverHosts();
  options.runners_up = 12;
  CompiledModel result = ASYRA_VALUE(Compile(options));
  const std::vector<RunnerUp>& others = result.schedule->runners_up;
  ASSERT_GE(others.size(), 3);
  ASSERT_LE(others.size(), 12);
  EXPECT_THAT(others,
              Contains(Field(&RunnerUp::name, Not(HasSubstr("hierarchical")))));
  const Program& program = result.program;
  for (const RunnerUp& other : others) {
    EXPECT_EQ(other.program.stage, Stage::kAllocated);
    EXPECT_EQ(other.program.mesh, program.mesh);
    ASSERT_EQ(other.program.inputs.size(), program.inputs.size());
    for (const Input& input : program.inputs) {
      ValueId value = other.program.FindValue(program.value_name(input.value));
      ASSERT_NE(value, kNoValue);
      EXPECT_EQ(other.program.type(value), program.type(input.value));
    }
    EXPECT_GE(other.makespan_us, result.schedule->optimized.makespan_us);
  }
}

TEST(StrategySearch, WhyCollectivesOverHostsStayFlatIsListed) {
  CompileFlags options = OverHosts();
  // Steps of latency alone.
  options.model = "gpt3-tiny";
  options.dims = {"batch=16", "seq=16"};
  CompiledModel small = ASYRA_VALUE(Compile(options));
  EXPECT_EQ(ToString(small.program.mesh), "(dp=16)");
  EXPECT_THAT(small.schedule->candidates,
              Contains(AllOf(Field(&ScheduleChoice::name,
                                   HasSubstr("hierarchical over hosts")),
                             Field(&ScheduleChoice::rejected,
                                   HasSubstr("takes more than latency")))));
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

// Types of params and states of `program` that are others in `step`.
std::vector<std::string> OtherTypes(const Program& program,
                                    const Program& step) {
  std::vector<std::string> others;
  for (const Input& input : program.inputs) {
    const std::string& name = program.value_name(input.value);
    ValueId same = step.FindValue(name);
    if (input.role == InputRole::kData || same == kNoValue) continue;
    if (program.type(input.value) != step.type(same)) others.push_back(name);
  }
  return others;
}

// The baseline is of ZeRO 0, the step of 2.
TEST(StrategySearch, TheUnscheduledStepIsShardedLikeTheStep) {
  CompileFlags options = Training();
  options.model = "llama3-tiny";
  options.dims = {"batch=4", "seq=4096"};
  options.machine = "h200x2";
  options.dp = 2;
  options.tiles = 0;
  options.search_steps = 50;
  Scheduled made = ScheduleIt(options);
  ASSERT_TRUE(made.status.ok()) << made.status;
  const CompiledModel& result = made.result;
  EXPECT_FALSE(OtherTypes(*result.partitioned, result.program).empty());
  EXPECT_THAT(OtherTypes(*result.unscheduled, result.program),
              testing::IsEmpty());
}

}  // namespace
}  // namespace asyra
