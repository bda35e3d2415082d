// Tuning results are measured once, survive the process, and are the same on
// all ranks; kernels are prepared with what was synchronized.
#include <unistd.h>

#include <filesystem>
#include <random>

#include "executor/comm/agreement.h"
#include "executor/composite_kernel.h"
#include "executor/tuning/tuning_cache.h"
#include "gmock/gmock.h"
#include "ir/support/status.h"
#include "tests/executor/ranks.h"
#include "tests/ir/op_case.h"
#include "tests/support/forwarding.h"

namespace asyra {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

auto Always() {
  return [](const TuningResult&) { return true; };
}
auto Never() {
  return [](const TuningResult&) { return false; };
}

// Gives "1", "2", ...
struct Measure {
  int count = 0;
  double us = 5;
  absl::StatusOr<TuningResult> operator()() {
    return TuningResult{std::to_string(++count), us};
  }
};

class StoreOnDisk : public testing::Test {
 protected:
  ~StoreOnDisk() override { std::filesystem::remove_all(disk_.folder()); }

  std::string Get(
      TuningCache& store, const std::string& key,
      const std::function<bool(const TuningResult&)>& serves = Always()) {
    return ASYRA_VALUE(store.Get(key, serves, std::ref(measure_))).value;
  }

  DiskCache disk_{
      fmt::format("{}asyra_tuning_{}", testing::TempDir(), getpid())};
  Measure measure_;
};

TEST_F(StoreOnDisk, MeasuresOnceInAllProcesses) {
  TuningCache store(&disk_), later(&disk_), without;
  EXPECT_EQ(Get(store, "a"), "1");
  EXPECT_EQ(Get(store, "a"), "1");
  EXPECT_EQ(Get(store, "b"), "2");
  EXPECT_EQ(Get(later, "a"), "1");
  EXPECT_EQ(Get(without, "a"), "3");
  EXPECT_EQ(ASYRA_VALUE(later.Get("b", Always(), std::ref(measure_))).us, 5);
}

// What this process has made need not be tried.
TEST_F(StoreOnDisk, WhatDoesNotServeIsMeasuredAnew) {
  TuningCache store(&disk_), later(&disk_), third(&disk_);
  EXPECT_EQ(Get(store, "a", Never()), "1");
  EXPECT_EQ(Get(store, "a", Never()), "1");
  EXPECT_EQ(Get(later, "a", Never()), "2");
  EXPECT_EQ(Get(third, "a"), "2");
  store.Override({{"a", {"foreign"}}});
  EXPECT_EQ(Get(store, "a", Never()), "3");
}

TEST_F(StoreOnDisk, WhatIsMalformedIsMeasuredAnew) {
  for (const char* text : {"", "5", "x\t1", "5x\t1", "5\t1\n", "5\t1\t2"}) {
    disk_.Keep("tuning", "a", text);
    TuningCache store(&disk_);
    int before = measure_.count;
    Get(store, "a");
    EXPECT_EQ(measure_.count, before + 1) << text;
  }
}

TEST_F(StoreOnDisk, WhatOverridesCountsAndStays) {
  TuningCache store(&disk_), later(&disk_);
  EXPECT_EQ(Get(store, "a"), "1");
  EXPECT_TRUE(store.Holds("a", {"1"}));
  store.Override({{"a", {"other", 4}}, {"b", {"new", 4}}});
  EXPECT_FALSE(store.Holds("a", {"1"}));
  EXPECT_EQ(Get(store, "a"), "other");
  EXPECT_EQ(Get(later, "a"), "other");
  EXPECT_EQ(Get(later, "b"), "new");
}

// For want of memory; a later process may have more.
TEST_F(StoreOnDisk, WhatWasNotMeasuredIsNotKept) {
  TuningCache store(&disk_), later(&disk_);
  measure_.us = 0;
  EXPECT_EQ(Get(store, "a"), "1");
  EXPECT_EQ(Get(store, "a"), "1");
  EXPECT_EQ(Get(later, "a"), "2");
}

TEST_F(StoreOnDisk, AnErrorIsNoResult) {
  TuningCache store(&disk_);
  auto fail = []() -> absl::StatusOr<TuningResult> {
    return absl::InternalError("no");
  };
  EXPECT_FALSE(store.Get("a", Always(), fail).ok());
  EXPECT_EQ(Get(store, "a"), "1");
}

TEST(TuningResultsText, IsReadAsItWasWritten) {
  TuningResults results = {{"gemm 1, x", {"0 00ff", 12.25}}, {"", {"", 0}}};
  TuningResults read = ParseTuningResults(ToText(results));
  EXPECT_EQ(read, results);
  EXPECT_EQ(read["gemm 1, x"].us, 12.25);
  EXPECT_THAT(ParseTuningResults("\n\na\tb\tc\nx\ty\n\t"), IsEmpty());
  EXPECT_EQ(ParseTuningResults("a\tb\tc\nk\t1\tv").size(), 1);
}

// What each rank gets, where rank r has `of(r)`.
std::vector<TuningResults> Agreed(
    int64_t ranks, const std::function<TuningResults(int64_t rank)>& of) {
  std::vector<TuningResults> agreed(ranks);
  for (const absl::Status& status :
       OnRanks(ranks, {}, [&](Communicator& world) -> absl::Status {
         auto results = SyncTuning(world, of(world.rank()));
         if (!results.ok()) return results.status();
         agreed[world.rank()] = *results;
         // All ranks have exchanged equally often.
         auto met = world.Exchange("met");
         if (!met.ok()) return met.status();
         EXPECT_THAT(*met, testing::Each("met"));
         return absl::OkStatus();
       })) {
    EXPECT_TRUE(status.ok()) << status;
  }
  return agreed;
}

TEST(SyncTuning, TheFirstRankCounts) {
  for (const TuningResults& agreed :
       Agreed(3, [](int64_t rank) -> TuningResults {
         return {{"a", {std::to_string(rank), 1.0 + rank}}, {"b", {"x", 1}}};
       })) {
    EXPECT_EQ(agreed, (TuningResults{{"a", {"0"}}, {"b", {"x"}}}));
  }
}

TEST(SyncTuning, OfOneModelEach) {
  std::vector<TuningResults> agreed =
      Agreed(4, [](int64_t rank) -> TuningResults {
        return {{rank % 2 ? "on H200" : "on H100", {std::to_string(rank), 1}}};
      });
  EXPECT_EQ(agreed[2], (TuningResults{{"on H100", {"0"}}}));
  EXPECT_EQ(agreed[3], (TuningResults{{"on H200", {"1"}}}));
}

TEST(SyncTuning, WhoCouldMeasureKnowsBetter) {
  std::vector<TuningResults> agreed =
      Agreed(3, [](int64_t rank) -> TuningResults {
        return {{"a", {std::to_string(rank), rank == 1 ? 9.0 : 0}}};
      });
  for (const TuningResults& one : agreed)
    EXPECT_EQ(one, (TuningResults{{"a", {"1"}}}));
  // Of ranks that could not, the first one counts.
  agreed = Agreed(3, [](int64_t rank) -> TuningResults {
    return {{"a", {std::to_string(rank), 0}}};
  });
  for (const TuningResults& one : agreed)
    EXPECT_EQ(one, (TuningResults{{"a", {"0"}}}));
}

// Any ranks, any keys: what a rank gets has its keys, and for each of them all
// ranks have the same.
TEST(SyncTuning, AreEqualWhereverTheyAreKnown) {
  SCOPED_TRACE(fmt::format("ASYRA_SEED={}", Seed()));
  std::mt19937_64 random(Seed());
  for (int round = 0; round < 30; ++round) {
    auto ranks = static_cast<int64_t>(1 + random() % 5);
    std::vector<TuningResults> given(ranks);
    for (TuningResults& results : given) {
      for (const char* key : {"a", "b", "c"}) {
        if (random() % 3 == 0) continue;
        results[key] = {std::to_string(random() % 3),
                        static_cast<double>(random() % 2)};
      }
    }
    std::vector<TuningResults> agreed =
        Agreed(ranks, [&](int64_t rank) { return given[rank]; });
    TuningResults all;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      ASSERT_EQ(agreed[rank].size(), given[rank].size());
      for (const auto& [key, result] : agreed[rank]) {
        EXPECT_EQ(given[rank].count(key), 1);
        EXPECT_EQ(all.emplace(key, result).first->second, result);
      }
    }
  }
}

// A cpu whose kernels are tuned differently on each rank.
class TunedDevice : public ForwardingDevice {
 public:
  explicit TunedDevice(int64_t rank)
      : ForwardingDevice(CreateCpuDevice()),
        own_{fmt::format("rank {}", rank), 1} {}

  // Of the kernels that were made, in their order.
  const std::vector<std::string>& made() const { return made_; }

  absl::StatusOr<std::unique_ptr<Kernel>> PrepareKernel(
      const KernelUse& use) override {
    auto kernel = ForwardingDevice::PrepareKernel(use);
    if (!kernel.ok()) return kernel;
    std::string key(use.def().name);
    TuningResult result = own_;
    if (key == "neg") result.value = "same";
    auto found = set_.find(key);
    if (found != set_.end()) result = found->second;
    made_.push_back(key + " by " + result.value);
    return std::make_unique<Chosen>(*std::move(kernel), key, result);
  }
  void SetTuningResults(const TuningResults& results) override {
    set_ = results;
  }

 private:
  class Chosen : public ForwardingKernel {
   public:
    Chosen(std::unique_ptr<Kernel> kernel, std::string key, TuningResult result)
        : ForwardingKernel(std::move(kernel)),
          key_(std::move(key)),
          tuned_(std::move(result)) {}
    // Proportional to the length of its tuning result.
    int64_t workspace_bytes() const override {
      return ForwardingKernel::workspace_bytes() +
             static_cast<int64_t>(tuned_.value.size()) * 1000;
    }
    void AddTuningResults(TuningResults* results) const override {
      results->emplace(key_, tuned_);
    }

   private:
    std::string key_;
    TuningResult tuned_;
  };

  const TuningResult own_;
  TuningResults set_;
  std::vector<std::string> made_;
};

constexpr char kProgram[] = R"(asyra 1 local
mesh (tp=3)
program @f(%x: f32[6@tp]) -> (f32[6]) {
  %a = exp(%x) : f32[6@tp]
  %b = all_gather(%a) {dim=0, axes=tp} : f32[6]
  %c = neg(%b) : f32[6]
  %d = fusion(%c) {
    %1 = exp(%0) : f32[6]
    %2 = neg(%1) : f32[6]
    return %2
  } : f32[6]
  return %d
}
)";

TEST(Prepare, KernelsThatOthersTunedOtherwiseAreMadeAnew) {
  std::vector<std::vector<std::string>> made(3);
  std::vector<int64_t> workspace(3);
  auto results = OnRanks(3, {}, [&](Communicator& world) -> absl::Status {
    TunedDevice device(world.rank());
    auto executor = ASYRA_VALUE(Executor::Load(Parse(kProgram)));
    absl::Status status = executor->Prepare(device, &world, nullptr);
    if (!status.ok()) return status;
    made[world.rank()] = device.made();
    workspace[world.rank()] = executor->memory().workspace_bytes;
    return executor->Step({Tensor::FromDoubles(DType::kF32, {2}, {1.0, 2.0})});
  });
  for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(made[0],
              ElementsAre("exp by rank 0", "neg by same", "fusion by rank 0"));
  EXPECT_THAT(made[1],
              ElementsAre("exp by rank 1", "neg by same", "fusion by rank 1",
                          "exp by rank 0", "fusion by rank 0"));
  EXPECT_EQ(made[2].size(), 5);
  EXPECT_EQ(workspace[0], workspace[2]);
}

// A fusion without a kernel of its own is made of those of its ops.
TEST(Prepare, OpsOfAFusionAreTunedToo) {
  TunedDevice device(1);
  Program program = Parse(kProgram);
  KernelUse use(program, program.ops[3], 0);
  std::unique_ptr<Kernel> kernel = ASYRA_VALUE(PrepareComposite(use, device));
  TuningResults results;
  kernel->AddTuningResults(&results);
  EXPECT_EQ(results, (TuningResults{{"exp", {"rank 1"}}, {"neg", {"same"}}}));
}

TEST(Prepare, ARankThatIsLeftByTheOthersFails) {
  auto results = OnRanks(2, {}, [&](Communicator& world) -> absl::Status {
    if (world.rank() == 1) {
      absl::Status why = absl::InternalError("no GPU");
      world.Abort(why);
      return why;
    }
    return SyncTuning(world, {}).status();
  });
  ExpectAll(results, "no GPU");
}

}  // namespace
}  // namespace asyra
