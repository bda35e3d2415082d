// Chunk plans between two GPUs, by copy engines: what the body means, launched
// op by op and as a graph.
#include <thread>

#include "executor/cuda/comm/nccl_world.h"
#include "executor/cuda/device/cuda_device.h"
#include "executor/cuda/device/cuda_platform.h"
#include "executor/run.h"
#include "gmock/gmock.h"
#include "ir/support/status.h"
#include "tests/cuda/copy_engines.h"
#include "tests/executor/plan_programs.h"
#include "tests/executor/ranks.h"
#include "tests/ir/op_case.h"
#include "tests/support/stack_watch.h"

namespace asyra {
namespace {

class CudaPlans : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    auto gpus = CountCudaDevices();
    if (!gpus.ok() || *gpus < 2) GTEST_SKIP() << "needs two GPUs";
    if (!GpusReachEachOther()) GTEST_SKIP() << "GPUs do not reach each other";
  }

  // On small integers exact, unless there is a tolerance.
  void ExpectPlansMeanTheBody(const PlanCase& c, int64_t parts,
                              double error = 0, int64_t steps = 20) {
    SCOPED_TRACE(c.name);
    // A rank that hangs gives up after timeout_s.
    StackWatch watch(std::chrono::seconds(12 + steps / 200));
    std::vector<PlanShape> shapes = ShapesOf(c, parts);
    std::erase_if(shapes, [](const PlanShape& shape) {
      return shape.route == PlanRoute::kPull;  // refused
    });
    std::vector<Tensor> whole = WholeOperands(c, 5);
    std::vector<Tensor> want = Meaning(c, whole);
    auto platform = ASYRA_VALUE(
        CreateCudaPlatform({.graphs = GetParam(), .timeout_s = 20}));
    RunResult got = ASYRA_VALUE(
        RunOnThreads(ProgramOf(c, shapes), whole, *platform,
                     {.repeat = steps, .check_deterministic = true}));
    EXPECT_TRUE(got.split_fusions.empty());
    ASSERT_EQ(got.outputs.size(), shapes.size() * want.size());
    for (size_t i = 0; i < got.outputs.size(); ++i) {
      EXPECT_TRUE(Near(got.outputs[i], want[i % want.size()], error))
          << "shape " << i / want.size();
    }
  }
};

TEST_P(CudaPlans, OfGathers) {
  for (int64_t parts : {1, 2}) {
    ExpectPlansMeanTheBody(GatherMatmuls(2, 16), parts);
    ExpectPlansMeanTheBody(GatherAndKeep(2, 16), parts);
  }
}

TEST_P(CudaPlans, OfSums) {
  for (int64_t parts : {1, 2}) {
    ExpectPlansMeanTheBody(MatmulReduce(2, 16, false), parts);
    ExpectPlansMeanTheBody(MatmulReduce(2, 16, true), parts);
  }
}

TEST_P(CudaPlans, OfWeightGradients) {
  for (int64_t parts : {1, 2}) {
    ExpectPlansMeanTheBody(WeightGradients(2, 16), parts);
    ExpectPlansMeanTheBody(WeightGradients(2, 16, DType::kBF16), parts);
    ExpectPlansMeanTheBody(WeightGradients(2, 16, DType::kF64), parts);
    ExpectPlansMeanTheBody(MatmulScatterColumns(2, 16), parts);
  }
}

TEST_P(CudaPlans, OfExchanges) {
  ExpectPlansMeanTheBody(MatmulExchange(2, 16), 2);
  ExpectPlansMeanTheBody(Ulysses(2, 4), 2, 1e-5);
}

TEST_P(CudaPlans, OfBothEnds) {
  ExpectPlansMeanTheBody(ReluGatherMatmul(2, 16), 2);
  ExpectPlansMeanTheBody(GatherMatmulScatter(2, 16), 2);
}

TEST_P(CudaPlans, TenThousandTimes) {
  ExpectPlansMeanTheBody(GatherMatmuls(2, 16), 2, 0, 10000);
  ExpectPlansMeanTheBody(MatmulReduce(2, 16, true), 2, 0, 10000);
}

TEST_P(CudaPlans, ThatReadFromOtherGpusAreRefused) {
  PlanCase c = GatherMatmuls(2, 16);
  auto platform =
      ASYRA_VALUE(CreateCudaPlatform({.graphs = GetParam(), .timeout_s = 20}));
  auto got =
      RunOnThreads(ProgramOf(c, {{PlanShape{.route = PlanRoute::kPull}}}),
                   WholeOperands(c, 5), *platform);
  EXPECT_THAT(std::string(got.status().message()),
              testing::HasSubstr("copies from other GPUs (route=pull)"));
}

// Its signals never come: the other ends by the timeout or by its error.
TEST_P(CudaPlans, ARankThatLeavesIsNamed) {
  PlanCase c = GatherMatmuls(2, 16);
  Program program = ProgramOf(c, {{PlanShape{.parts = 2}}});
  std::vector<std::vector<Tensor>> operands = Spread(c, WholeOperands(c, 5));
  auto results =
      OnRanks(2, {.timeout_s = 30}, [&](Communicator& control) -> absl::Status {
        int ordinal = static_cast<int>(control.rank());
        ASYRA_ASSIGN_OR_RETURN(
            auto device,
            CreateCudaDevice({.ordinal = ordinal, .graphs = GetParam()}));
        ASYRA_ASSIGN_OR_RETURN(
            auto world,
            CreateNcclWorld(control, {.ordinal = ordinal, .timeout_s = 20}));
        ASYRA_ASSIGN_OR_RETURN(auto executor, Executor::Load(program));
        ASYRA_RETURN_IF_ERROR(executor->Prepare(*device, world.get(), nullptr));
        ASYRA_RETURN_IF_ERROR(executor->Step(operands[ordinal]));
        if (ordinal == 1) {
          absl::Status status = Invalid("no more power");
          world->Abort(status);
          return status;
        }
        return executor->Step(operands[ordinal]);
      });
  ExpectAll(results, "no more power");
}

INSTANTIATE_TEST_SUITE_P(Launches, CudaPlans, testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "graph" : "op_by_op";
                         });

}  // namespace
}  // namespace asyra
