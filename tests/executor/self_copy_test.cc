// Collectives that leave a self-copy to a stream of its own: it begins when
// they do, and waits for them wait for it.
#include "executor/cpu/run_on_cpu.h"
#include "executor/run.h"
#include "gmock/gmock.h"
#include "ir/interpreter.h"
#include "ir/support/status.h"
#include "tests/executor/ranks.h"
#include "tests/support/forwarding.h"

namespace asyra {
namespace {

// All of it is left to the self-copy.
class LateKernel : public ForwardingKernel {
 public:
  LateKernel(std::unique_ptr<Kernel> kernel, bool split)
      : ForwardingKernel(std::move(kernel)), split_(split) {}
  void Launch(const KernelArgs& args, Stream& stream) override {
    if (!split_) ForwardingKernel::Launch(args, stream);
  }
  bool has_self_copy() const override { return split_; }
  void LaunchSelfCopy(const KernelArgs& args, Stream& stream) override {
    ForwardingKernel::Launch(args, stream);
  }

 private:
  bool split_;
};

class LateWorld : public ForwardingWorld {
 public:
  LateWorld(Communicator& world, std::atomic<int>* split)
      : ForwardingWorld(world), split_(split) {}
  absl::StatusOr<std::unique_ptr<Kernel>> PrepareCollective(
      const CollectiveUse& use) override {
    ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel,
                           ForwardingWorld::PrepareCollective(use));
    *split_ += use.split;
    return std::make_unique<LateKernel>(std::move(kernel), use.split);
  }

 private:
  std::atomic<int>* split_;
};

class LatePlatform : public ForwardingPlatform {
 public:
  LatePlatform() : ForwardingPlatform(CreateCpuPlatform()) {}
  absl::StatusOr<std::unique_ptr<Communicator>> Connect(Communicator& control,
                                                        Device&) override {
    return std::make_unique<LateWorld>(control, &split_);
  }
  int split() const { return split_; }

 private:
  std::atomic<int> split_ = 0;
};

// %g and %h are waited for on two streams; %f and %i are of one collective,
// which has two waits. Nothing but its self-copy writes %y before %b reads it.
constexpr const char* kProgram = R"(asyra 1 scheduled
mesh (tp=2, dp=2)
program @f(%x: f32[64@tp, 256], %s: f32[64@tp, 256], %r: f32[32@dp, 8]) ->
    (f32[64, 256], f32[64, 256], f32[32, 8], f32[32, 8], f32[64@tp, 256]) {
  %a = neg(%x) on compute : f32[64@tp, 256]
  %g = start all_gather(%a) {dim=0, axes=tp} on tp : future f32[64, 256]
  %c = exp(%s) on compute : f32[64@tp, 256]
  %h = start all_gather(%c) {dim=0, axes=tp} on tp : future f32[64, 256]
  %q = neg(%r) on compute : f32[32@dp, 8]
  %f, %i = start all_gather(%r, %q) {dim=0, axes=dp} on dp : future f32[32, 8], future f32[32, 8]
  %d = exp(%c) on compute : f32[64@tp, 256]
  %y = wait(%g) on compute : f32[64, 256]
  %b = neg(%y) on compute : f32[64, 256]
  %z = wait(%h) on other : f32[64, 256]
  %e = neg(%z) on other : f32[64, 256]
  %u = wait(%f) on compute : f32[32, 8]
  %v = neg(%u) on compute : f32[32, 8]
  %w = wait(%i) on other : f32[32, 8]
  %k = exp(%w) on other : f32[32, 8]
  return %b, %e, %v, %k, %d
}
)";

TEST(SelfCopies, AreThereBeforeWhatIsWaitedForIsRead) {
  Program program = Parse(kProgram);
  std::vector<Tensor> inputs = RandomInputs(program, 1, 100);
  auto want = Interpret(program, inputs);
  ASSERT_TRUE(want.ok()) << want.status();
  for (bool debug : {false, true}) {
    LatePlatform platform;
    auto got = RunOnThreads(
        program, inputs, platform,
        {.executor = {.debug_memory = debug, .profile = true}, .repeat = 20});
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(platform.split(), 4 * 2) << "of each rank, those of one value";
    ASSERT_EQ(got->outputs.size(), want->size());
    for (size_t i = 0; i < want->size(); ++i) {
      for (int64_t k = 0; k < (*want)[i].num_elements(); ++k) {
        ASSERT_NEAR(got->outputs[i].Get(k), (*want)[i].Get(k), 1e-5)
            << "output " << i << " at " << k;
      }
    }
  }
}

}  // namespace
}  // namespace asyra
