// What a training step's schedule is chosen from.
#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "ir/support/check.h"
#include "models/models.h"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"
#include "passes/search/candidate.h"
#include "passes/search/schedule.h"
#include "simulator/cost/load_machine.h"

namespace asyra {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

// Parameters are cut over two devices and gathered before their readers.
class ZeroThree {
 public:
  ZeroThree(int64_t layers, int64_t vocabulary, bool halves = true,
            int64_t tokens = 8192)
      : mesh_(*Mesh::Create({{"dp", 2}})),
        costs_(*LoadMachine("h200x2"), mesh_) {
    program_ =
        ASYRA_VALUE(BuiltinModel("llama3-8b", {{"batch", 2},
                                               {"seq", tokens},
                                               {"layers", layers},
                                               {"vocabulary", vocabulary}}));
    program_.mesh = mesh_;
    PassContext context{.costs = &costs_};
    TrainOptions train{.halves = halves, .zero = "3"};
    EXPECT_EQ(RunPasses(program_, ShardPasses({}, train), context),
              absl::OkStatus());
    EXPECT_EQ(RunPasses(program_, FusePasses(false, "estimated"), context),
              absl::OkStatus());
  }

  ScheduleResult Schedule(int64_t capacity_bytes) {
    PassContext context{.costs = &costs_};
    ScheduleOptions options{
        .tiles = 1, .search_steps = 200, .capacity_bytes = capacity_bytes};
    return ASYRA_VALUE(asyra::Schedule(program_, options, context));
  }

 private:
  Mesh mesh_;
  CostModel costs_;
  Program program_;
};

const ScheduleChoice* Chosen(const ScheduleResult& result) {
  auto found = absl::c_find_if(
      result.candidates,
      [](const ScheduleChoice& choice) { return choice.rejected.empty(); });
  return found == result.candidates.end() ? nullptr : &*found;
}

// Gathers of parameters hide behind layers before them, without tiles; copy
// engines take no SMs from these.
TEST(TrainSchedule, CopyEnginesAreTriedWithoutTiles) {
  ScheduleResult result = ZeroThree(2, 8192).Schedule(0);
  const ScheduleChoice* chosen = Chosen(result);
  ASSERT_NE(chosen, nullptr);
  EXPECT_EQ(result.tiles, 1);
  EXPECT_TRUE(absl::StrContains(chosen->name, ", copy engines"))
      << chosen->name;
  EXPECT_LT(result.optimized.makespan_us, result.baseline.makespan_us);
}

// Gathers of params in halves wait for nothing, and yet start no earlier than
// behind casts, which took time and memory.
TEST(TrainSchedule, HalvesAreNoWorseThanCasts) {
  ScheduleResult halves = ZeroThree(4, 8192, true).Schedule(0);
  ScheduleResult casts = ZeroThree(4, 8192, false).Schedule(0);
  EXPECT_LE(halves.baseline.makespan_us, casts.baseline.makespan_us);
  EXPECT_LE(halves.optimized.makespan_us, casts.optimized.makespan_us);
  EXPECT_LE(Chosen(halves)->device_bytes, Chosen(casts)->device_bytes);
}

constexpr char kSecondStream[] = "second compute stream";

TEST(TrainSchedule, WhatDoesNotFitIsTriedOnFewerStreams) {
  constexpr int64_t kBudget = 175 * kGiB / 8;  // 21.875 GiB
  ScheduleResult result = ZeroThree(10, 8192, true, 2048).Schedule(kBudget);
  const ScheduleChoice* chosen = Chosen(result);
  ASSERT_NE(chosen, nullptr);
  EXPECT_FALSE(absl::StrContains(chosen->name, kSecondStream)) << chosen->name;
  EXPECT_TRUE(
      absl::c_any_of(result.candidates, [&](const ScheduleChoice& choice) {
        return absl::StrContains(choice.name, kSecondStream) &&
               choice.device_bytes > kBudget &&
               choice.makespan_us < chosen->makespan_us;
      }));
  EXPECT_TRUE(result.fits);
  EXPECT_LT(result.optimized.makespan_us, 0.95 * result.baseline.makespan_us);
}

TEST(TrainSchedule, ADecisionIsTakenBackByNameAndPass) {
  absl::Span<const Decision> decisions = Decisions();
  auto named = [&](std::string_view pass) -> const Decision& {
    return *absl::c_find_if(
        decisions, [&](const Decision& one) { return one.pass == pass; });
  };
  const Decision& streams = named("lay_out_streams");
  const Decision& engines = named("use_copy_engines");
  ASSERT_TRUE(streams.costs_memory);
  CandidatePlan plain = PlanOf("1 tile");
  EXPECT_FALSE(Without(streams, plain).has_value());
  for (const Setting& setting : streams.settings) {
    SCOPED_TRACE(setting.name);
    CandidatePlan plan = plain;
    plan.name += setting.name + engines.settings[0].name;
    plan.structure.push_back(setting.pass);
    plan.attributes.push_back(engines.settings[0].pass);
    std::optional<CandidatePlan> without = Without(streams, plan);
    ASSERT_TRUE(without.has_value());
    EXPECT_EQ(without->name, "1 tile" + engines.settings[0].name);
    EXPECT_EQ(ToString(without->structure), ToString(plain.structure));
    EXPECT_EQ(ToString(without->attributes), ToString(plan.attributes));
  }
}

}  // namespace
}  // namespace asyra
