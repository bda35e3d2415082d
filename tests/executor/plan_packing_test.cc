// The simulator estimates the bytes that executors pack: counted while they
// run.
#include "ir/plans/plan_packing.h"

#include <atomic>

#include "ir/gpu/vector_bytes.h"
#include "ir/support/status.h"
#include "simulator/cost/load_machine.h"
#include "simulator/cost/plan_cost.h"
#include "tests/executor/plan_programs.h"
#include "tests/executor/ranks.h"
#include "tests/support/forwarding.h"

namespace asyra {
namespace {

class CountingAction : public PlanAction {
 public:
  CountingAction(std::unique_ptr<PlanAction> action, int64_t bytes,
                 std::atomic<int64_t>* sum)
      : action_(std::move(action)), bytes_(bytes), sum_(sum) {}
  void Enqueue(Stream& stream) override {
    *sum_ += bytes_;
    action_->Enqueue(stream);
  }

 private:
  std::unique_ptr<PlanAction> action_;
  int64_t bytes_;
  std::atomic<int64_t>* sum_;
};

// Counts the bytes that a rank copies in its own memory.
class CountingLink : public PlanLink {
 public:
  CountingLink(std::unique_ptr<PlanLink> link, std::atomic<int64_t>* sum)
      : link_(std::move(link)), sum_(sum) {}
  absl::Status Connect(std::vector<void*> buffers) override {
    return link_->Connect(std::move(buffers));
  }
  void* AddressOf(int member, int buffer) const override {
    return link_->AddressOf(member, buffer);
  }
  Action Copy(const BoxCopy& copy, bool reaches) override {
    ASYRA_ASSIGN_OR_RETURN(auto action, link_->Copy(copy, reaches));
    if (reaches) return action;
    return std::make_unique<CountingAction>(
        std::move(action), copy.what.elements() * copy.element_bytes, sum_);
  }
  Action Sum(const DenseSum& sum) override { return link_->Sum(sum); }
  Action Post(absl::Span<const PlanStep> posts) override {
    return link_->Post(posts);
  }
  Action Wait(absl::Span<const PlanStep> waits) override {
    return link_->Wait(waits);
  }
  Action Exchange(const ExchangeCall& call) override {
    return link_->Exchange(call);
  }

 private:
  std::unique_ptr<PlanLink> link_;
  std::atomic<int64_t>* sum_;
};

class CountingWorld : public ForwardingWorld {
 public:
  CountingWorld(Communicator& world, std::atomic<int64_t>* sum)
      : ForwardingWorld(world), sum_(sum) {}
  absl::StatusOr<std::unique_ptr<PlanLink>> LinkPlan(
      const PlanUse& use) override {
    ASYRA_ASSIGN_OR_RETURN(auto link, ForwardingWorld::LinkPlan(use));
    return std::make_unique<CountingLink>(std::move(link), sum_);
  }

 private:
  std::atomic<int64_t>* sum_;
};

// The cpu, with kernels as particular as those of a GPU.
class AlignedDevice : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  int64_t part_alignment() const override { return kGpuVectorBytes; }
};

int64_t BytesCopiedByRunning(const PlanCase& c, const PlanShape& shape) {
  Program program = ProgramOf(c, {&shape, 1});
  std::vector<std::vector<Tensor>> operands = Spread(c, WholeOperands(c, 1));
  std::atomic<int64_t> sum = 0;
  AlignedDevice device{std::shared_ptr<Device>(CreateCpuDevice())};
  auto results = OnRanks(c.ranks(), {}, [&](Communicator& world) {
    CountingWorld counting(world, &sum);
    auto executor = ASYRA_VALUE(Executor::Load(program));
    ASYRA_RETURN_IF_ERROR(executor->Prepare(device, &counting, nullptr));
    return executor->Step(operands[world.rank()]);
  });
  for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
  return sum;
}

// The steps of the plan that move a rank's own part.
int64_t BytesOfOwnCopies(const ChunkPlan& plan) {
  int64_t bytes = 0;
  for (const auto& of_rank : plan.steps) {
    for (const PlanStep& step : of_rank) {
      if (step.kind != PlanStep::kCopy ||
          step.reads[0].rank != step.write.rank) {
        continue;
      }
      bytes += step.write.box.elements() * SizeOf(plan.dtype(step.write));
    }
  }
  return bytes;
}

// How much all shapes of the body pack.
int64_t ExpectEstimatedIsPacked(const PlanCase& c, int64_t parts) {
  CostModel costs(ASYRA_VALUE(LoadMachine("h200x8")), c.mesh);
  int64_t packed = 0;
  for (const PlanShape& shape : ShapesOf(c, parts)) {
    ChunkPlan plan = ASYRA_VALUE(MakePlan(c.Group(), shape));
    PlanTimes times = ReplayPlan(plan, costs);
    EXPECT_EQ(BytesCopiedByRunning(c, shape),
              times.packed_bytes + BytesOfOwnCopies(plan))
        << c.name << ", parts " << parts;
    packed += times.packed_bytes;
  }
  return packed;
}

TEST(PlanPacking, NothingIsPackedWhereRowsAreAligned) {
  for (int64_t parts : {1, 2}) {
    EXPECT_EQ(ExpectEstimatedIsPacked(AlignedGatherMatmul(2, 8), parts), 0);
  }
}

TEST(PlanPacking, OfRowsThatAreNotAligned) {
  // Shards of 4 rows of 5 floats begin at multiples of 80 bytes, parts of one
  // row do not.
  EXPECT_EQ(ExpectEstimatedIsPacked(GatherMatmuls(2, 8), 1), 0);
  EXPECT_GT(ExpectEstimatedIsPacked(GatherMatmuls(2, 8), 4), 0);
}

// Rows are the second dimension: chunks of them have a run for each of the
// first.
TEST(PlanPacking, OfBatches) {
  for (bool all : {false, true}) {
    EXPECT_GT(ExpectEstimatedIsPacked(MatmulReduce(2, 8, all), 2), 0);
    EXPECT_GT(ExpectEstimatedIsPacked(MatmulReduce(2, 8, all), 4), 0);
    EXPECT_GT(ExpectEstimatedIsPacked(MatmulReduce(4, 8, all), 2), 0);
  }
  EXPECT_GT(ExpectEstimatedIsPacked(MatmulReduce(2, 8, false), 1), 0);
  // The batch itself is walked.
  EXPECT_EQ(ExpectEstimatedIsPacked(MatmulReduce(2, 8, true), 1), 0);
}

TEST(PlanPacking, OfViewsAndExchanges) {
  EXPECT_GT(ExpectEstimatedIsPacked(GatherViewMatmul(2, 8), 2), 0);
  EXPECT_GT(ExpectEstimatedIsPacked(MatmulExchange(2, 8), 2), 0);
  EXPECT_GT(ExpectEstimatedIsPacked(Ulysses(2, 4), 2), 0);
}

TEST(PlanPacking, OfBothEnds) {
  ExpectEstimatedIsPacked(ReluGatherMatmul(3, 12), 2);
  EXPECT_GT(ExpectEstimatedIsPacked(GatherMatmulScatter(2, 8), 4), 0);
}

// Columns of a gradient are read where they are, where they begin at multiples
// of 16 bytes.
TEST(PlanPacking, OfRowsThatAreApart) {
  EXPECT_EQ(ExpectEstimatedIsPacked(WeightGradients(2, 8), 2), 0);
  EXPECT_GT(ExpectEstimatedIsPacked(WeightGradients(2, 7, DType::kBF16), 1), 0);
}

// What is packed costs time, by the bytes and by the kernel.
TEST(PlanPacking, CostsTime) {
  auto time_us = [](const Shape& batch_and_rows) {
    PlanCase c = MatmulReduce(2, 8, false);
    Shape x = batch_and_rows;
    x.push_back(4096);
    c.operands = {Sharded(Type(DType::kBF16, x), 2),
                  Sharded(Type(DType::kBF16, {4096, 4096}), 0)};
    CostModel costs(ASYRA_VALUE(LoadMachine("h200x8")), c.mesh);
    ChunkPlan plan =
        ASYRA_VALUE(MakePlan(c.Group(), {.order = PlanOrder::kOwnLast}));
    return ReplayPlan(plan, costs);
  };
  PlanTimes dense = time_us({1, 16384}), strided = time_us({4, 4096});
  EXPECT_EQ(dense.packed_bytes, 0);
  EXPECT_GT(strided.packed_bytes, 0);
  // A rank packs half of them, at 4.8 bytes per ns at most, each twice.
  double least_us = static_cast<double>(strided.packed_bytes) / 4.8e6;
  EXPECT_GT(strided.compute_us, dense.compute_us + least_us);
}

}  // namespace
}  // namespace asyra
