// Claims about whole pipelines on a small transformer: every mesh, tile count
// and scheduler computes what the program computes, and the schedule chosen is
// never worse than the baseline.
#include "passes/search/schedule.h"

#include <cmath>
#include <map>
#include <memory>
#include <set>

#include "absl/algorithm/container.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "ir/overlap.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "ir/verify/verifier.h"
#include "models/models.h"
#include "passes/compile.h"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"
#include "simulator/cost/load_machine.h"
#include "simulator/replay/memory.h"
#include "tests/support/costs.h"
#include "tests/support/sanitized.h"

namespace asyra {
namespace {

Program Tiny() {
  absl::StatusOr<Program> program = BuiltinModel("llama3-tiny", {{"seq", 16}});
  EXPECT_TRUE(program.ok()) << program.status();
  return *std::move(program);
}

void ExpectSameOutputs(const Program& want_program,
                       const Program& got_program) {
  std::vector<Tensor> inputs = RandomInputs(want_program, 1, 256);
  absl::StatusOr<std::vector<Tensor>> want = Interpret(want_program, inputs);
  absl::StatusOr<std::vector<Tensor>> got = Interpret(got_program, inputs);
  ASSERT_TRUE(want.ok()) << want.status();
  ASSERT_TRUE(got.ok()) << got.status();
  ASSERT_EQ(want->size(), got->size());
  for (size_t i = 0; i < want->size(); ++i) {
    double worst = 0;
    for (int64_t k = 0; k < (*want)[i].num_elements(); ++k) {
      worst = std::max(worst, std::abs((*want)[i].Get(k) - (*got)[i].Get(k)));
    }
    EXPECT_LT(worst, 1e-6) << "output " << i;
  }
}

struct Setting {
  std::vector<Mesh::Axis> axes;
  int tiles;
};

class Meshes : public testing::TestWithParam<Setting> {};

TEST_P(Meshes, ScheduledProgramComputesTheSame) {
  Program single = Tiny();
  Program program = single;
  program.mesh = *Mesh::Create(GetParam().axes);
  CostModel costs = Costs(program);
  PassContext context;
  context.costs = &costs;
  ASSERT_EQ(RunPasses(program, ShardPasses(), context), absl::OkStatus());
  absl::StatusOr<ScheduleResult> result = Schedule(
      program, {.tiles = GetParam().tiles, .search_steps = 300}, context);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(Verify(result->program), absl::OkStatus());
  if (GetParam().tiles > 0) {
    EXPECT_EQ(result->tiles, GetParam().tiles);
  }
  if (GetParam().tiles == 0) {
    EXPECT_LE(result->optimized.makespan_us, result->baseline.makespan_us);
  }
  ExpectSameOutputs(single, result->program);
  // What is written reads back to the same program.
  absl::StatusOr<Program> read = ParseProgram(ToString(result->program));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(ToString(*read), ToString(result->program));
}

INSTANTIATE_TEST_SUITE_P(
    All, Meshes,
    testing::Values(Setting{{}, 0}, Setting{{}, 2}, Setting{{{"tp", 2}}, 0},
                    Setting{{{"tp", 4}}, 2}, Setting{{{"sp", 2}}, 2},
                    Setting{{{"sp", 4}}, 4}, Setting{{{"dp", 2}}, 2},
                    Setting{{{"sp", 2}, {"tp", 2}}, 1},
                    Setting{{{"sp", 2}, {"tp", 4}}, 2},
                    Setting{{{"dp", 2}, {"tp", 2}}, 2},
                    Setting{{{"dp", 2}, {"sp", 2}, {"tp", 2}}, 0}));

// Beside the result, which is what it is without them.
TEST(Schedule, KeepsRunnersUp) {
  Program single = ASYRA_VALUE(BuiltinModel("llama3-tiny", {{"seq", 64}}));
  Program program = single;
  program.mesh = *Mesh::Create({{"sp", 2}, {"tp", 2}});
  CostModel costs = Costs(program);
  PassContext context{.costs = &costs};
  ASYRA_CHECK_OK(RunPasses(program, ShardPasses(), context));
  ScheduleOptions options{.search_steps = 300};
  ScheduleResult alone = ASYRA_VALUE(Schedule(program, options, context));
  EXPECT_TRUE(alone.runners_up.empty());
  options.runners_up = 2;
  ScheduleResult kept = ASYRA_VALUE(Schedule(program, options, context));
  EXPECT_EQ(ToString(kept.program), ToString(alone.program));
  ASSERT_EQ(kept.runners_up.size(), 2);
  EXPECT_LE(kept.runners_up[0].makespan_us, kept.runners_up[1].makespan_us);
  std::set<std::string> texts = {ToString(kept.program)};
  for (const RunnerUp& other : kept.runners_up) {
    EXPECT_TRUE(texts.insert(ToString(other.program)).second) << other.name;
    EXPECT_TRUE(absl::c_any_of(kept.candidates, [&](const auto& choice) {
      return choice.name == other.name;
    })) << other.name;
    EXPECT_EQ(Simulate(other.program, costs).makespan_us, other.makespan_us);
    EXPECT_EQ(Verify(other.program), absl::OkStatus());
    ExpectSameOutputs(single, other.program);
  }
}

// A built-in model sharded over a mesh of a machine, with its costs.
struct Sharded {
  Program program;
  std::unique_ptr<CostModel> costs;

  absl::StatusOr<ScheduleResult> Schedule(const ScheduleOptions& options) {
    PassContext context{.costs = costs.get()};
    return asyra::Schedule(program, options, context);
  }
};

Sharded Shard(const std::string& model,
              const std::map<std::string, int64_t>& dims,
              std::vector<Mesh::Axis> axes,
              const std::vector<std::string>& edits = {},
              const std::string& machine = "h200x8") {
  Sharded sharded{ASYRA_VALUE(BuiltinModel(model, dims)), nullptr};
  Program& program = sharded.program;
  program.mesh = ASYRA_VALUE(Mesh::Create(std::move(axes)));
  sharded.costs = std::make_unique<CostModel>(
      ASYRA_VALUE(LoadMachine(machine, edits)), program.mesh);
  PassContext context{.costs = sharded.costs.get()};
  EXPECT_EQ(RunPasses(program, ShardPasses(), context), absl::OkStatus());
  return sharded;
}

TEST(Schedule, TilingHidesCommunicationOnALargeModel) {
  const int64_t layers = kSanitized ? 4 : 32;
  Sharded llama =
      Shard("llama3-8b", {{"layers", layers}}, {{"sp", 2}, {"tp", 4}});
  ScheduleResult result = ASYRA_VALUE(llama.Schedule({}));
  EXPECT_GT(result.tiles, 1);
  EXPECT_LT(result.optimized.makespan_us, result.baseline.makespan_us);
  EXPECT_LT(result.optimized.exposed_comm_us,
            0.8 * result.baseline.exposed_comm_us);
  EXPECT_GE(result.optimized.makespan_us, result.optimized.lower_bound_us);
}

int64_t DeviceBytes(const Sharded& model, const ScheduleResult& result,
                    int64_t enough_bytes = 0) {
  return ReportMemory(result.program, result.optimized, model.costs->machine(),
                      enough_bytes)
      .device_bytes;
}

// What a refusal says that the smallest schedule takes.
double LeastGib(const absl::Status& refusal) {
  constexpr std::string_view kBefore = "the least that one takes is ";
  std::string message = refusal.ToString();
  size_t at = message.find(kBefore);
  if (at == std::string::npos) return 0;
  return std::strtod(message.c_str() + at + kBefore.size(), nullptr);
}

// 64 K tokens on four devices: activations shrink by a quarter and more, since
// only parts of the widest values are alive at once, and nothing is slower.
TEST(Schedule, PrefillOfALongSequenceTakesLessMemory) {
  Sharded llama =
      Shard("llama3-8b", {{"batch", 1}, {"seq", 65536}, {"logits", 1}},
            {{"sp", 4}}, {}, "h100x8");
  ScheduleOptions options{.search_steps = 400};
  ScheduleResult result = ASYRA_VALUE(llama.Schedule(options));
  auto activations = [](const SimResult& simulated) {
    return static_cast<double>(simulated.peak_bytes - simulated.weight_bytes);
  };
  EXPECT_LE(result.optimized.makespan_us, result.baseline.makespan_us);
  EXPECT_LE(activations(result.optimized), 0.75 * activations(result.baseline));
  // Weights alone: more than these, and no more than what was found takes.
  options.capacity_bytes = result.baseline.weight_bytes;
  absl::Status status = llama.Schedule(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  constexpr double kGib = 1 << 30;
  EXPECT_GT(LeastGib(status),
            static_cast<double>(*options.capacity_bytes) / kGib);
  EXPECT_LE(LeastGib(status),
            static_cast<double>(DeviceBytes(llama, result)) / kGib);
}

// Values, libraries and kernels together: what is found takes at most what was
// allowed, whether that is said of the step or is what the machine has.
TEST(Schedule, FitsInTheCapacityWithLibrariesAndKernels) {
  Sharded llama = Shard(
      "llama3-8b", {{"layers", 2}, {"batch", 4}, {"seq", 8192}, {"logits", 1}},
      {{"tp", 2}}, {}, "h100x8");
  ScheduleOptions options{.search_steps = 200, .capacity_bytes = 0};
  ScheduleResult any = ASYRA_VALUE(llama.Schedule(options));
  int64_t bytes = DeviceBytes(llama, any);
  bool bound = false;
  for (int tenths : {10, 9, 8}) {
    SCOPED_TRACE(tenths);
    options.capacity_bytes = bytes * tenths / 10;
    absl::StatusOr<ScheduleResult> found = llama.Schedule(options);
    if (!found.ok()) {
      EXPECT_EQ(found.status().code(), absl::StatusCode::kResourceExhausted);
      bound = true;
      continue;
    }
    EXPECT_LE(DeviceBytes(llama, *found, *options.capacity_bytes),
              *options.capacity_bytes);
    EXPECT_TRUE(found->fits);
  }
  EXPECT_TRUE(bound);
  options.allow_misfit = true;
  EXPECT_FALSE(ASYRA_VALUE(llama.Schedule(options)).fits);
}

int OpsWithMargin(const Program& program) {
  EXPECT_EQ(Verify(program), absl::OkStatus());
  return static_cast<int>(absl::c_count_if(
      program.ops, [](const Op& op) { return SmMargin(op.attrs) > 0; }));
}

// Links so slow that communication takes as long as computation, and no copy
// engines: collectives that begin beside long matmuls wait for their end.
TEST(Schedule, MatmulsLeaveSmsWhereThatPays) {
  Sharded llama = Shard(
      "llama3-8b", {{"layers", 2}, {"batch", 2}, {"seq", 32768}, {"logits", 1}},
      {{"sp", 8}}, {"host.copy_engines=0", "host.link_gbps*=0.06"});
  ScheduleOptions options{.search_steps = 400};
  ScheduleResult margin = ASYRA_VALUE(llama.Schedule(options));
  options.closed = {"leave_sm_margin"};
  ScheduleResult none = ASYRA_VALUE(llama.Schedule(options));
  EXPECT_LT(margin.optimized.makespan_us, 0.99 * none.optimized.makespan_us);
  EXPECT_GT(OpsWithMargin(margin.program), 10);
  EXPECT_EQ(OpsWithMargin(none.program), 0);
}

// Counts the overlaps in a matmul of two devices and the scatter of its result.
int OverlapsOf(int64_t depth, std::string_view machine,
               const ScheduleOptions& options) {
  Program program = ASYRA_VALUE(ParseProgram(fmt::format(R"(asyra 1 local
mesh (tp=2)
program @f(%x: bf16[8192, {0}@tp] weight, %w: bf16[{0}@tp, 4096] weight)
    -> (bf16[8192@tp, 4096]) {{
  %a = matmul(%x, %w) : bf16[8192, 4096] partial(tp)
  %y = reduce_scatter(%a) {{dim=0, axes=tp}} : bf16[8192@tp, 4096]
  return %y
}})",
                                                         depth)));
  CostModel costs(ASYRA_VALUE(LoadMachine(machine)), program.mesh);
  PassContext context;
  context.costs = &costs;
  ScheduleResult result = ASYRA_VALUE(Schedule(program, options, context));
  return static_cast<int>(absl::c_count_if(
      result.program.ops, [](const Op& op) { return IsOverlap(*op.def); }));
}

// Unasked where the table has the pieces and the step gains more than estimates
// of it err.
TEST(Schedule, OverlapsWhereMeasuredPiecesGainMuch) {
  ScheduleOptions unasked{.search_steps = 400};
  ScheduleOptions opened = unasked, closed = unasked;
  opened.opened = closed.closed = {"form_overlaps"};
  EXPECT_EQ(OverlapsOf(4096, "h200x2", unasked), 1);
  EXPECT_EQ(OverlapsOf(4096, "h200x2", closed), 0);
  // No table is of it.
  EXPECT_EQ(OverlapsOf(4096, "a800x8", unasked), 0);
  EXPECT_EQ(OverlapsOf(4096, "a800x8", opened), 1);
  // The deeper the matmul, the less there is to hide: where the gain is below
  // 8 %, only on request.
  int on_request = 0;
  for (int64_t depth = 8192; depth <= 32768; depth += 2048) {
    int asked = OverlapsOf(depth, "h200x2", opened);
    EXPECT_LE(OverlapsOf(depth, "h200x2", unasked), asked) << depth;
    on_request += asked - OverlapsOf(depth, "h200x2", unasked);
  }
  EXPECT_GT(on_request, 0);
  EXPECT_EQ(GainsTooLittle(95, 0.08, 100, "2 tiles"),
            "gains 5.0 % over 2 tiles, and estimates of it are up to 8 % too "
            "good");
}

// Candidates are compared once the caller's stream passes are run on them: the
// makespan that decides is that of the program that is returned.
TEST(Schedule, IsDecidedByTheStreamPassesOfTheCaller) {
  Sharded gpt = Shard("gpt3-6.7b", {{"layers", 2}}, {{"tp", 8}}, {}, "h20x8");
  for (bool ctas : {true, false}) {
    SCOPED_TRACE(ctas);
    ScheduleResult result =
        ASYRA_VALUE(gpt.Schedule({.closed = {"leave_sm_margin"},
                                  .search_steps = 200,
                                  .streams = StreamPasses(ctas)}));
    bool given = absl::c_any_of(result.program.ops, [](const Op& op) {
      return op.is_collective() && op.attrs.Int("ctas") > 0;
    });
    EXPECT_EQ(given, ctas);
    double us = Simulate(result.program, *gpt.costs).makespan_us;
    EXPECT_EQ(result.optimized.makespan_us, us);
    EXPECT_EQ(result.round_us.back(), us);
  }
  EXPECT_EQ(ToString(ScheduleOptionsOf({.measured_only = true}).streams),
            ToString(StreamPasses(/*ctas=*/false)));
}

TEST(Schedule, BatchThatDoesNotCutIsRefused) {
  absl::StatusOr<Program> program = BuiltinModel("llama3-tiny", {{"batch", 3}});
  ASSERT_TRUE(program.ok()) << program.status();
  program->stage = Stage::kLocal;
  CostModel costs = Costs(*program);
  PassContext context;
  context.costs = &costs;
  absl::StatusOr<ScheduleResult> result =
      Schedule(*program, {.tiles = 2, .tile_dim = "batch"}, context);
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.status().ToString(),
              testing::HasSubstr("dim 0 of input %input_ids is 3 on a device"));
}

TEST(Plan, LlamaUnderTensorParallelHasTwoReductionsALayer) {
  absl::StatusOr<Program> program = BuiltinModel("llama3-8b", {});
  ASSERT_TRUE(program.ok()) << program.status();
  program->mesh = *Mesh::Create({{"tp", 4}});
  PassContext context;
  ASSERT_EQ(RunPasses(*program, ShardPasses(), context), absl::OkStatus());
  int reductions = 0, gathers = 0, others = 0;
  for (const Op& op : program->ops) {
    if (!op.is_collective()) continue;
    switch (op.def->collective) {
      case CollectiveKind::kAllReduce:
      case CollectiveKind::kReduceScatter:
        ++reductions;
        break;
      case CollectiveKind::kAllGather:
        ++gathers;
        break;
      default:
        ++others;
    }
  }
  EXPECT_EQ(reductions, 64);  // two a layer
  EXPECT_LE(gathers, 65);     // beside reduce_scatter, one each; embedding
  EXPECT_LE(others, 1);       // the embedding may come by all_to_all
}

TEST(Plan, SequenceParallelIsUlyssesOnALargeModel) {
  absl::StatusOr<Program> program = BuiltinModel("llama3-8b", {});
  ASSERT_TRUE(program.ok()) << program.status();
  program->mesh = *Mesh::Create({{"sp", 4}});
  PassContext context;
  ASSERT_EQ(RunPasses(*program, ShardPasses(), context), absl::OkStatus());
  int exchanges = 0, others = 0;
  for (const Op& op : program->ops) {
    bool exchange = op.def->collective == CollectiveKind::kAllToAll;
    exchanges += exchange;
    others += op.is_collective() && !exchange;
  }
  EXPECT_EQ(exchanges, 4 * 32);
  EXPECT_EQ(others, 0);
}

TEST(Plan, KeysAndValuesAreGatheredWhereHeadsDoNotDivide) {
  Program program = Tiny();  // 4 kv heads
  program.mesh = *Mesh::Create({{"sp", 2}, {"tp", 4}});
  PassContext context;
  ASSERT_EQ(RunPasses(program, ShardPasses(), context), absl::OkStatus());
  std::string text = ToString(program);
  EXPECT_THAT(text, testing::HasSubstr("%layer0.k_rotary.all_gather = "
                                       "all_gather(%layer0.k_rotary)"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("all_to_all")));
}

// Its output is its input.
TEST(Schedule, AProgramWithoutOpsIsScheduled) {
  Program program = *ParseProgram(
      "asyra 1 local\nprogram @f(%x: f32[4]) -> (f32[4]) {\n  return %x\n}\n");
  CostModel costs = Costs(program);
  PassContext context;
  context.costs = &costs;
  absl::StatusOr<ScheduleResult> result =
      Schedule(program, {.search_steps = 300}, context);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->program.ops.empty());
}

}  // namespace
}  // namespace asyra
