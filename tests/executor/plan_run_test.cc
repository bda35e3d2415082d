// Chunk plans carried out between ranks that are threads: what the body means,
// from every template, whoever is late; and what goes wrong on one rank in the
// middle of a plan is a named error on all.
#include <map>

#include "executor/cpu/run_on_cpu.h"
#include "executor/trace.h"
#include "ir/plans/plan_interpreter.h"
#include "ir/plans/plan_text.h"
#include "ir/support/status.h"
#include "tests/executor/plan_programs.h"
#include "tests/executor/ranks.h"
#include "tests/ir/op_case.h"
#include "tests/ir/plans/ring_both_ways.h"
#include "tests/support/forwarding.h"
#include "tests/support/sanitized.h"

namespace asyra {
namespace {

constexpr double kJitterUs = 60;

// Under a sanitizer some of the shapes, other ones for each number of ranks and
// parts.
constexpr size_t kEvery = kSanitized ? 6 : 1;

std::vector<PlanShape> SomeShapesOf(const PlanCase& c, int64_t parts) {
  std::vector<PlanShape> all = ShapesOf(c, parts), some;
  for (size_t i = (c.ranks() + parts) % kEvery; i < all.size(); i += kEvery) {
    some.push_back(all[i]);
  }
  return some;
}

RunResult RunWithJitter(const Program& program,
                        absl::Span<const Tensor> inputs) {
  return ASYRA_VALUE(RunOnCpu(program, inputs,
                              {.inject_jitter_us = kJitterUs,
                               .repeat = 2,
                               .check_deterministic = true}));
}

void ExpectPlansMeanTheBody(const PlanCase& c, int64_t parts,
                            double error = 0) {
  SCOPED_TRACE(c.name);
  std::vector<PlanShape> shapes = SomeShapesOf(c, parts);
  ASSERT_FALSE(shapes.empty());
  std::vector<Tensor> whole = WholeOperands(c, 5);
  std::vector<Tensor> want = Meaning(c, whole);
  RunResult got = RunWithJitter(ProgramOf(c, shapes), whole);
  EXPECT_TRUE(got.split_fusions.empty());
  EXPECT_TRUE(got.fallback_ops.empty());
  ASSERT_EQ(got.outputs.size(), shapes.size() * want.size());
  for (size_t i = 0; i < got.outputs.size(); ++i) {
    EXPECT_TRUE(Near(got.outputs[i], want[i % want.size()], error))
        << "shape " << i / want.size();
  }
}

class PlanRun : public testing::TestWithParam<std::pair<int, int64_t>> {
 protected:
  int n() const { return GetParam().first; }
  int64_t parts() const { return GetParam().second; }
  int64_t rows() const { return n() * parts() * (n() < 8 ? 2 : 1); }
};

TEST_P(PlanRun, OfGathers) {
  ExpectPlansMeanTheBody(GatherMatmuls(n(), rows()), parts());
  ExpectPlansMeanTheBody(GatherAndKeep(n(), rows()), parts());
  ExpectPlansMeanTheBody(GatherViewMatmul(n(), rows()), parts());
}

TEST_P(PlanRun, OfSums) {
  ExpectPlansMeanTheBody(MatmulReduce(n(), rows(), false), parts());
  ExpectPlansMeanTheBody(MatmulReduce(n(), rows(), true), parts());
}

TEST_P(PlanRun, OfWeightGradients) {
  for (DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
    ExpectPlansMeanTheBody(WeightGradients(n(), rows(), dtype), parts());
  }
  ExpectPlansMeanTheBody(MatmulScatterColumns(n(), rows()), parts());
  ExpectPlansMeanTheBody(ScatterBesideGather(n(), rows()), parts());
}

TEST_P(PlanRun, OfExchanges) {
  ExpectPlansMeanTheBody(MatmulExchange(n(), rows()), parts());
  // The cpu computes exponentials in single precision.
  ExpectPlansMeanTheBody(Ulysses(n(), n() * parts()), parts(), 1e-6);
}

TEST_P(PlanRun, OfBothEnds) {
  ExpectPlansMeanTheBody(ReluGatherMatmul(n(), rows()), parts());
  ExpectPlansMeanTheBody(GatherMatmulScatter(n(), rows()), parts());
}

INSTANTIATE_TEST_SUITE_P(RanksAndParts, PlanRun,
                         testing::Values(std::pair(2, 1), std::pair(2, 3),
                                         std::pair(3, 2), std::pair(3, 3),
                                         std::pair(4, 1), std::pair(4, 2),
                                         std::pair(8, 1)),
                         [](const auto& info) {
                           return fmt::format("n{}_parts{}", info.param.first,
                                              info.param.second);
                         });

// In the rounding order of the plan, bit for bit. The values are such that
// products and sums in single precision are exact: only what is stored in bf16
// is rounded.
TEST(PlanRunBf16, RoundsAsThePlanSays) {
  int rounded = 0;
  for (bool all : {false, true}) {
    PlanCase c = MatmulReduce(4, 8, all, DType::kBF16);
    std::vector<Tensor> whole = Quarters(c);
    std::vector<Tensor> body = Meaning(c, whole);
    std::vector<PlanShape> shapes = SomeShapesOf(c, 2);
    RunResult got = RunWithJitter(ProgramOf(c, shapes), whole);
    for (size_t i = 0; i < shapes.size(); ++i) {
      ChunkPlan plan = ASYRA_VALUE(MakePlan(c.Group(), shapes[i]));
      auto want = ASYRA_VALUE(RunPlan(plan, Spread(c, whole)));
      Type type = ASYRA_VALUE(OverlapTypes(c.body, c.operands, c.mesh)).back();
      for (int r = 0; r < 4; ++r) {
        EXPECT_TRUE(
            SameBytes(Shard(got.outputs[i], type, c.mesh, r), want[r][0]))
            << "shape " << i << ", rank " << r;
      }
      rounded += SameBytes(got.outputs[i], body[0]) ? 0 : 1;
    }
  }
  EXPECT_GT(rounded, 0) << "no order rounds differently: nothing is tested";
}

// Landings are in the workspace that is planned and reserved, and steps stay in
// it.
TEST(PlanRunMemory, LandingsArePlanned) {
  PlanCase c = MatmulReduce(4, 8, false);
  PlanShape shape{.order = PlanOrder::kOwnLast, .parts = 2};
  ChunkPlan plan = ASYRA_VALUE(MakePlan(c.Group(), shape));
  ASSERT_GT(plan.workspace_bytes, 0);
  RunResult got = RunWithJitter(ProgramOf(c, {&shape, 1}), WholeOperands(c, 1));
  EXPECT_GE(got.memory.workspace_bytes, plan.workspace_bytes);
  EXPECT_LE(got.used.workspace_bytes, got.memory.workspace_bytes);
  EXPECT_GT(got.used.workspace_bytes, 0);
}

// Of every piece, sum and copy of a rank, in the time of its op and in the
// order of its queue.
TEST(PlanRunProfile, QueuesAreTimed) {
  for (const PlanCase& c :
       {GatherMatmuls(2, 8, 1), MatmulReduce(2, 8, false)}) {
    PlanShape shape{.order = PlanOrder::kOwnLast, .parts = 2};
    ChunkPlan plan = ASYRA_VALUE(MakePlan(c.Group(), shape));
    RunResult got =
        ASYRA_VALUE(RunOnCpu(ProgramOf(c, {&shape, 1}), WholeOperands(c, 1),
                             {.executor = {.profile = true}, .repeat = 3}));
    ASSERT_EQ(got.profile.size(), 1u);
    const OpTime& op = got.profile[0];
    std::map<std::string, double> queue_end;
    int copies = 0, pieces = 0, packed = 0;
    for (const PartTime& part : op.parts) {
      EXPECT_LE(op.start_us, part.start_us) << part.name;
      EXPECT_LE(part.start_us, part.end_us) << part.name;
      EXPECT_LE(part.end_us, op.end_us) << part.name;
      EXPECT_LE(queue_end[part.queue], part.start_us) << part.name;
      queue_end[part.queue] = part.end_us;
      bool packs = part.name.starts_with("packing for ");
      EXPECT_EQ(part.is_copy, part.name.starts_with("copy %")) << part.name;
      (part.is_copy ? copies : packs ? packed : pieces) += 1;
    }
    int want_copies = 0, want_pieces = 0;
    for (const PlanStep& step : plan.steps[0]) {
      want_copies += step.kind == PlanStep::kCopy ? 1 : 0;
      want_pieces +=
          step.kind == PlanStep::kPiece || step.kind == PlanStep::kSum ? 1 : 0;
    }
    EXPECT_EQ(copies, want_copies);
    EXPECT_EQ(pieces, want_pieces);
    EXPECT_EQ(packed > 0, c.name == "scatter");  // of two batches
    std::string trace = WriteProfileTrace(got.program, 0, got.profile);
    EXPECT_NE(trace.find("overlap: copy 0"), std::string::npos);
    EXPECT_NE(trace.find("\"copy\": true"), std::string::npos);
  }
}

// A plan that is written by hand is carried out as it is: on its own queues.
TEST(PlanRunProfile, AWrittenPlanIsCarriedOut) {
  PlanCase c = RingCase();
  Program program = ProgramOf(c, {{PlanShape{}}});
  SetPlan(ASYRA_VALUE(ParsePlan(kRingBothWays, c.Group())),
          &program.ops.back().attrs);
  std::vector<Tensor> whole = WholeOperands(c, 1);
  RunResult got = ASYRA_VALUE(RunOnCpu(program, whole,
                                       {.executor = {.profile = true},
                                        .inject_jitter_us = kJitterUs,
                                        .repeat = 3}));
  EXPECT_TRUE(SameBytes(got.outputs[0], Meaning(c, whole)[0]));
  std::map<std::string, int> runs;
  ASSERT_EQ(got.profile.size(), 1u);
  for (const PartTime& part : got.profile[0].parts) {
    if (!part.name.starts_with("packing for ")) ++runs[part.queue];
  }
  std::map<std::string, int> want = {{"compute", 7}, {"up", 3}, {"down", 3}};
  EXPECT_EQ(runs, want);
}

// Without a profile nothing is recorded.
TEST(PlanRunProfile, IsOnRequest) {
  PlanCase c = GatherMatmuls(2, 8, 1);
  RunResult got =
      ASYRA_VALUE(RunOnCpu(ProgramOf(c, {{PlanShape{}}}), WholeOperands(c, 1)));
  EXPECT_TRUE(got.profile.empty());
}

TEST(PlanRunErrors, SizesThatDoNotDivideAreRefused) {
  Program program = ProgramOf(GatherMatmuls(3, 12), {{PlanShape{}}});
  program.ops.back().attrs.Set("parts", int64_t{3});
  auto executor = Executor::Load(program);
  ASSERT_FALSE(executor.ok());
  EXPECT_NE(MessageOf(executor.status())
                .find("size 12, which does not divide into 3 shards of 3"),
            std::string_view::npos)
      << executor.status();
}

// Where ranks do not reach each other's memory.
class WithoutPlans : public ForwardingWorld {
 public:
  using ForwardingWorld::ForwardingWorld;
  absl::StatusOr<bool> CarriesPlans(std::string_view) override { return false; }
};

TEST(PlanRunFallback, OverlapsAreTheirOpsAndAreListed) {
  PlanCase c = GatherMatmuls(2, 8, 1);
  std::vector<Tensor> whole = WholeOperands(c, 1);
  std::vector<Tensor> want = Meaning(c, whole);
  Program program = ProgramOf(c, {{PlanShape{}}});
  Type type = program.type(program.outputs[0].value);
  auto device = CreateCpuDevice();
  auto results = OnRanks(2, {}, [&](Communicator& world) {
    WithoutPlans without(world);
    auto executor = ASYRA_VALUE(Executor::Load(program));
    ASYRA_RETURN_IF_ERROR(executor->Prepare(*device, &without, nullptr));
    EXPECT_EQ(executor->split_fusions(),
              std::vector<std::string>{"overlap(all_gather+matmul)"});
    EXPECT_EQ(executor->program().ops.size(), 2u);
    ASYRA_RETURN_IF_ERROR(executor->Step(Spread(c, whole)[world.rank()]));
    EXPECT_TRUE(SameBytes(ASYRA_VALUE(executor->Output(0)),
                          Shard(want[0], type, c.mesh, world.rank())));
    return absl::OkStatus();
  });
  for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
}

// Rows of a table by index, each rank its own, gathered: an index that is out
// of range fails on its rank alone, in the middle of the plan.
constexpr int64_t kIndices = 8;  // of a rank
PlanCase LookUpAndGather(int n) {
  PlanCase made{"lookup", GroupMesh(n), {}, {}};
  made.operands = {Type(DType::kF32, {4, 3}),
                   Sharded(Type(DType::kI64, {kIndices * n}), 0)};
  made.body = {2,
               {MakeBodyOp("embedding", {0, 1}),
                MakeBodyOp("all_gather", {2},
                           {{"dim", int64_t{0}}, {"axes", AxisList{0}}})},
               {3}};
  return made;
}

std::vector<Tensor> LookUpInputs() {
  Tensor table(DType::kF32, {4, 3}), ids(DType::kI64, {kIndices});
  for (int64_t i = 0; i < table.num_elements(); ++i) table.Set(i, i);
  return {table, ids};
}

class PlanFaults : public testing::Test {
 protected:
  // Steps until something fails. Rank 2 of 4 changes its inputs before the
  // second step, or leaves with an error.
  std::vector<absl::Status> Run(
      const std::function<absl::Status(std::vector<Tensor>*)>& before_second,
      double timeout_s = 30) {
    PlanCase c = LookUpAndGather(4);
    Program program =
        ProgramOf(c, {{PlanShape{.parts = 4},
                       PlanShape{.route = PlanRoute::kPull, .parts = 4},
                       PlanShape{.route = PlanRoute::kRing, .parts = 4},
                       PlanShape{.parts = 4, .exchanges = true}}});
    return OnRanks(
        4, {.timeout_s = timeout_s, .inject_jitter_us = kJitterUs},
        [&](Communicator& world) -> absl::Status {
          auto executor = ASYRA_VALUE(Executor::Load(program));
          ASYRA_RETURN_IF_ERROR(executor->Prepare(*device_, &world, nullptr));
          std::vector<Tensor> inputs = LookUpInputs();
          ASYRA_RETURN_IF_ERROR(executor->Step(inputs));
          if (world.rank() == 2) {
            absl::Status status = before_second(&inputs);
            if (!status.ok()) {
              world.Abort(status);
              return status;
            }
          }
          absl::Status status = executor->Step(inputs);
          others_.Count();
          return status;
        });
  }

  void TearDown() override {
    EXPECT_TRUE(device_->Allocate(kBytes).ok()) << "memory was not given back";
  }

  static constexpr int64_t kBytes = int64_t{1} << 30;
  EndedRanks others_;  // than rank 2
  std::unique_ptr<Device> device_ = CreateCpuDevice({.memory_bytes = kBytes});
};

TEST_F(PlanFaults, APieceThatFails) {
  for (int64_t where = 0; where < kIndices; where += kSanitized ? 3 : 1) {
    auto results = Run([&](std::vector<Tensor>* inputs) {
      (*inputs)[1].Set(where, 9);
      return absl::OkStatus();
    });
    ExpectAll(results, "embedding: index 9");
    EXPECT_NE(MessageOf(results[0]).find("rank 2 failed: "),
              std::string_view::npos)
        << results[0];
  }
}

TEST_F(PlanFaults, ARankThatLeaves) {
  auto results = Run([&](std::vector<Tensor>*) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return Invalid("no more power");
  });
  ExpectAll(results, "no more power");
}

TEST_F(PlanFaults, ARankThatIsLate) {
  auto results = Run(
      [&](std::vector<Tensor>*) {
        others_.Await(3);
        return absl::OkStatus();
      },
      /*timeout_s=*/3);
  ExpectAll(results, "rank 2 did not begin the step within 3 s");
}

}  // namespace
}  // namespace asyra
