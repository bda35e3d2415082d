// Collectives that copy engines carry, and of those of the library what depends
// on their shape, between two GPUs, against the interpreter.
#include <atomic>

#include "executor/cuda/device/cuda_device.h"
#include "executor/cuda/device/cuda_platform.h"
#include "executor/run.h"
#include "gmock/gmock.h"
#include "ir/interpreter.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "tests/cuda/copy_engines.h"
#include "tests/executor/ranks.h"
#include "tests/support/kernel_case.h"

namespace asyra {
namespace {

// What a collective asks for, and what carries it.
enum class Carrier {
  kCopyEngine,
  kLibraryInstead,  // of copy engines, which were asked for
  kLibrary,
};

// One collective: what it is given, how it is called, what it gives. Sums are
// over the first dimension of what the program is given.
struct Case {
  std::string operand, call, result;
  Carrier carrier = Carrier::kCopyEngine;

  // `split`: started and waited for, so that the self-copy has its own stream.
  std::string Text(bool split) const {
    size_t partial = operand.find(" partial");
    std::string given = operand, sum = "";
    if (partial != std::string::npos) {
      size_t at = operand.find('[') + 1;
      given =
          operand.substr(0, at) + "2@x, " + operand.substr(at, partial - at);
      sum = "  %a = reduce_sum(%i) {dims=[0], keep=false} : " + operand + "\n";
    }
    std::string name = sum.empty() ? "%a" : "%i";
    std::string text = fmt::format(
        "{}mesh (x=2)\nprogram @p({}: {}) -> ({}) {{\n",
        split ? "asyra 1 scheduled\n" : "asyra 1 local\n", name, given, result);
    if (!split) {
      return text + fmt::format("{}  %b = {}{}}} : {}\n  return %b\n}}\n", sum,
                                call, Asks(), result);
    }
    size_t colon = sum.find(" : ");
    if (colon != std::string::npos) sum.insert(colon, " on compute");
    return text + fmt::format(
                      "{0}  %f = start {1}{3}}} on x : future {2}\n"
                      "  %b = wait(%f) on compute : {2}\n"
                      "  %c = neg(%b) on compute : {2}\n  return %c\n}}\n",
                      sum, call, result, Asks());
  }
  std::string_view Asks() const {
    return carrier == Carrier::kLibrary ? "" : ", transport=copy_engine";
  }
};

std::vector<Case> Cases() {
  return {
      {"f32[4@x, 6]", "all_gather(%a) {dim=0, axes=x", "f32[4, 6]"},
      {"bf16[3, 4@x, 16]", "all_gather(%a) {dim=1, axes=x", "bf16[3, 4, 16]"},
      {"i64[3, 2, 8@x]", "all_gather(%a) {dim=2, axes=x", "i64[3, 2, 8]"},
      {"f32[8@x, 2, 6]", "all_to_all(%a) {from=0, to=2, axes=x",
       "f32[8, 2, 6@x]"},
      {"bf16[2, 4, 6@x, 8]", "all_to_all(%a) {from=2, to=1, axes=x",
       "bf16[2, 4@x, 6, 8]"},
      {"f32[16, 8] partial(x)", "reduce_scatter(%a) {dim=0, axes=x",
       "f32[16@x, 8]"},
      {"bf16[3, 8, 16] partial(x)", "reduce_scatter(%a) {dim=1, axes=x",
       "bf16[3, 8@x, 16]"},
      {"f32[16, 8] partial(x)", "all_reduce(%a) {axes=x", "f32[16, 8]"},
      {"bf16[64, 48] partial(x)", "all_reduce(%a) {axes=x", "bf16[64, 48]"},
      // Reductions that copy engines do not carry: NCCL's.
      {"f32[3, 3] partial(x)", "all_reduce(%a) {axes=x", "f32[3, 3]",
       Carrier::kLibraryInstead},
      {"i64[16, 8] partial(x)", "all_reduce(%a) {axes=x", "i64[16, 8]",
       Carrier::kLibraryInstead},
      // Of the library, a call for each run of 256 KiB, and packed.
      {"f32[9, 131072@x]", "all_gather(%a) {dim=1, axes=x", "f32[9, 131072]",
       Carrier::kLibrary},
      {"f32[9, 131072] partial(x)", "reduce_scatter(%a) {dim=1, axes=x",
       "f32[9, 131072@x]", Carrier::kLibrary},
      {"f32[9, 32@x]", "all_gather(%a) {dim=1, axes=x", "f32[9, 32]",
       Carrier::kLibrary},
      {"f32[9, 32] partial(x)", "reduce_scatter(%a) {dim=1, axes=x",
       "f32[9, 32@x]", Carrier::kLibrary},
  };
}

class CountingPlatform : public Platform {
 public:
  explicit CountingPlatform(std::unique_ptr<Platform> gpus)
      : gpus_(std::move(gpus)) {}
  std::string_view name() const override { return gpus_->name(); }
  absl::Status CheckRanks(int64_t ranks_here) const override {
    return gpus_->CheckRanks(ranks_here);
  }
  absl::StatusOr<std::shared_ptr<Device>> MakeDevice(
      int64_t local_rank, int64_t ranks_on_host) override {
    return gpus_->MakeDevice(local_rank, ranks_on_host);
  }
  absl::StatusOr<std::unique_ptr<Communicator>> Connect(
      Communicator& control, Device& device) override {
    ASYRA_ASSIGN_OR_RETURN(auto world, gpus_->Connect(control, device));
    return std::make_unique<CountingWorld>(std::move(world), &carried_);
  }
  // By all ranks, since it was asked last.
  int TakeCarried() { return carried_.exchange(0); }

 private:
  std::unique_ptr<Platform> gpus_;
  std::atomic<int> carried_ = 0;
};

TEST(CopyCollectives, AreProgramsForTheInterpreterToo) {
  for (const Case& one : Cases()) {
    for (bool split : {false, true}) {
      Program program = Parse(one.Text(split));
      auto result = Interpret(program, RandomInputs(program, 1, 100));
      EXPECT_TRUE(result.ok()) << result.status() << "\n" << one.Text(split);
    }
  }
}

TEST(CopyCollectives, GiveWhatTheReferenceDoes) {
  absl::StatusOr<int> gpus = CountCudaDevices();
  if (!gpus.ok() || *gpus < 2) GTEST_SKIP() << "takes two GPUs";
  if (!GpusReachEachOther()) GTEST_SKIP() << "the GPUs share no memory";
  const std::vector<Case> cases = Cases();
  for (bool graphs : {false, true}) {
    CountingPlatform platform(
        ASYRA_VALUE(CreateCudaPlatform({.graphs = graphs, .timeout_s = 20})));
    for (int i = 0; i < 2 * static_cast<int>(cases.size()); ++i) {
      const Case& one = cases[i / 2];
      Program program = Parse(one.Text(/*split=*/i % 2 == 1));
      std::vector<Tensor> inputs = RandomInputs(program, 1, 100);
      auto want = Interpret(program, inputs);
      ASSERT_TRUE(want.ok()) << want.status();
      // Flags are used again by later steps.
      auto got =
          RunOnThreads(program, inputs, platform,
                       {.executor = {.debug_memory = true}, .repeat = 5});
      ASSERT_TRUE(got.ok()) << got.status() << "\n" << ToString(program);
      EXPECT_TRUE(Near(got->outputs[0], (*want)[0], kKernelTolerance))
          << one.call;
      EXPECT_EQ(platform.TakeCarried(),
                one.carrier == Carrier::kCopyEngine ? 2 : 0)
          << one.call << " of " << one.operand;
    }
  }
}

}  // namespace
}  // namespace asyra
