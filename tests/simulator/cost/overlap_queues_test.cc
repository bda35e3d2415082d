// What the queues of overlaps do, in profiles, pages, traces and reports.
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "gmock/gmock.h"
#include "ir/support/check.h"
#include "simulator/cost/load_machine.h"
#include "simulator/cost/plan_cost.h"
#include "simulator/report/page.h"
#include "simulator/report/profile_json.h"
#include "simulator/report/report.h"
#include "simulator/report/trace.h"
#include "tests/simulator/test_support.h"

namespace asyra {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::string_view kProgram = R"(asyra 1 scheduled
mesh (tp=4)
program @mlp(%x: bf16[8192@tp, 4096], %w: bf16[4096, 14336@tp] weight,
    %v: bf16[14336@tp, 4096] weight) -> (bf16[8192@tp, 4096]) {
  %layer0.h = overlap(%x, %w) {
    %2 = all_gather(%0) {dim=0, axes=tp} : bf16[8192, 4096]
    %3 = matmul(%2, %1) : bf16[8192, 14336@tp]
    return %3
  } on compute : bf16[8192, 14336@tp]
  %layer0.y = overlap(%layer0.h, %v) {
    %2 = matmul(%0, %1) : bf16[8192, 4096] partial(tp)
    %3 = reduce_scatter(%2) {dim=0, axes=tp} : bf16[8192@tp, 4096]
    return %3
  } {order=own_last, parts=2} on compute : bf16[8192@tp, 4096]
  return %layer0.y
})";

struct Simulated {
  Program program;
  Machine machine;
  SimResult result;
  Profile profile;
};

Simulated SimulatedOn(const std::string& name) {
  Simulated made{Parse(kProgram), ASYRA_VALUE(LoadMachine(name)), {}, {}};
  CostModel costs(made.machine, made.program.mesh);
  made.result = Simulate(made.program, costs);
  made.profile = MakeProfile(made.program, made.result, costs, {});
  return made;
}

TEST(OverlapQueues, AreInTheTimeOfTheirOp) {
  Simulated on = SimulatedOn("h200x8");
  ASSERT_EQ(on.profile.ops.size(), 2u);
  for (const ProfileOp& op : on.profile.ops) {
    std::map<std::string, double> end;
    std::map<bool, int> count;
    for (const ProfileStep& step : op.steps) {
      EXPECT_LT(op.start_us, step.start_us);
      EXPECT_LE(step.start_us, step.end_us);
      EXPECT_LT(step.end_us, op.end_us);
      EXPECT_LE(end[step.queue], step.start_us + 1e-9) << step.name;
      end[step.queue] = step.end_us;
      ++count[step.is_copy];
    }
    EXPECT_THAT(end, testing::SizeIs(2));
    bool gathers = op.name == "layer0.h";
    // Its shard to three others, in one part or two.
    EXPECT_EQ(count[true], gathers ? 3 : 6);
    EXPECT_EQ(count[false], gathers ? 4 : 10);  // pieces and two sums
  }
}

TEST(OverlapQueues, AreWrittenAndReadAgain) {
  Profile profile = SimulatedOn("h200x8").profile;
  std::string json = ProfileJson(profile);
  Profile back = ASYRA_VALUE(ReadProfile(json, "f"));
  EXPECT_EQ(ProfileJson(back), json);
  EXPECT_EQ(back.ops[1].steps.size(), profile.ops[1].steps.size());
  EXPECT_THAT(ProfilePage({{profile}}), HasSubstr("\"queue\""));
  auto broken = nlohmann::ordered_json::parse(json);
  broken["ops"][0]["steps"][1]["end_us"] = -1;
  EXPECT_THAT(ReadProfile(broken.dump(), "f").status().message(),
              HasSubstr("f: ops[0].steps[1].end_us is before start_us"));
}

TEST(OverlapQueues, HaveTracksOfTheirOwn) {
  Simulated on = SimulatedOn("h200x8");
  auto trace = nlohmann::json::parse(
      WriteChromeTrace(on.program, on.result, on.machine));
  std::set<int> kernels;
  std::map<int, double> end;
  std::set<std::string> names;
  size_t steps = 0;
  for (const auto& event : trace["traceEvents"]) {
    if (event["name"] == "thread_name") {
      names.insert(event["args"]["name"].get<std::string>());
    }
    if (event.value("cat", "") == "kernel")
      kernels.insert(event["tid"].get<int>());
    if (event.value("cat", "") != "overlap") continue;
    ++steps;
    int track = event["tid"].get<int>();
    EXPECT_GE(event["ts"].get<double>(), end[track] - 2e-3);
    end[track] = event["ts"].get<double>() + event["dur"].get<double>();
  }
  EXPECT_EQ(steps,
            on.profile.ops[0].steps.size() + on.profile.ops[1].steps.size());
  for (const auto& [track, until] : end) EXPECT_FALSE(kernels.contains(track));
  EXPECT_TRUE(names.contains("overlap: compute"));
  EXPECT_TRUE(names.contains("overlap: copy 0"));
  // Readers of kernels see each op once.
  Profile read = ASYRA_VALUE(ReadProfile(trace.dump(), "t"));
  EXPECT_EQ(read.ops.size(), 2u);
}

TEST(OverlapQueues, AreExplained) {
  Simulated on = SimulatedOn("h200x8");
  std::string text = OverlapReport(on.profile);
  EXPECT_THAT(text, HasSubstr("layer*.h"));
  EXPECT_THAT(text, HasSubstr("layer*.y"));
  EXPECT_THAT(OverlapReport(on.profile, 1), HasSubstr("1 others"));
  // Op by op between GPUs without peer access: there are no queues.
  EXPECT_EQ(OverlapReport(SimulatedOn("rtx4090x8").profile), "");
  EXPECT_THAT(WriteChromeTrace(SimulatedOn("rtx4090x8").program,
                               SimulatedOn("rtx4090x8").result,
                               ASYRA_VALUE(LoadMachine("rtx4090x8"))),
              Not(HasSubstr("overlap: ")));
}

}  // namespace
}  // namespace asyra
