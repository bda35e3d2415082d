#include "tools/run/run_gate.h"

#include "gmock/gmock.h"
#include "ir/copy_engine.h"
#include "ir/support/check.h"
#include "tests/support/parse.h"

namespace asyra {
namespace {

using testing::ElementsAre;

constexpr char kGather[] = R"(asyra 1 scheduled
mesh (tp=2)
program @f(%x: f32[8@tp, 4]) -> (f32[8, 4]) {
  %f = start all_gather(%x) {axes=tp, dim=0, transport=copy_engine} on tp : future f32[8, 4]
  %y = wait(%f) on compute : f32[8, 4]
  return %y
}
)";

std::vector<std::string> NamesOf(const std::vector<GateCandidate>& candidates) {
  std::vector<std::string> names;
  for (const GateCandidate& one : candidates) names.push_back(one.name);
  return names;
}

TEST(RunGate, TriesTheLibraryWhereCopyEnginesAreAskedFor) {
  Program program = Parse(kGather), plain = program;
  AskForCopyEngine(false, &plain.ops[0].attrs);
  std::vector<Tensor> inputs = {Tensor(DType::kF32, {8, 4})};
  auto candidates =
      ASYRA_VALUE(GateCandidates(program, &plain, {}, {}, inputs));
  EXPECT_THAT(
      NamesOf(candidates),
      ElementsAre("scheduled", "scheduled, by the library", "unscheduled"));
  EXPECT_TRUE(AsksForCopyEngine(candidates[0].program.ops[0].attrs));
  EXPECT_FALSE(AsksForCopyEngine(candidates[1].program.ops[0].attrs));
  EXPECT_EQ(candidates[2].inputs.size(), 1);
  EXPECT_THAT(
      NamesOf(ASYRA_VALUE(GateCandidates(plain, &plain, {}, {}, inputs))),
      ElementsAre("scheduled", "unscheduled"));
  // Given by name, it is not tried twice.
  std::vector<AgainstProgram> against = {{"unscheduled", plain, inputs}};
  EXPECT_THAT(
      NamesOf(ASYRA_VALUE(GateCandidates(plain, &plain, {}, against, inputs))),
      ElementsAre("scheduled", "unscheduled"));
  EXPECT_FALSE(GateCandidates(plain, nullptr, {}, {}, inputs).ok());
}

TEST(RunGate, TriesTheRunnersUp) {
  Program program = Parse(kGather), other = program;
  AskForCopyEngine(false, &other.ops[0].attrs);
  std::vector<Tensor> inputs = {Tensor(DType::kF32, {8, 4})};
  std::vector<RunnerUp> runners_up = {{"4 tiles", program, 1}};
  auto candidates =
      ASYRA_VALUE(GateCandidates(other, &other, runners_up, {}, inputs));
  EXPECT_THAT(NamesOf(candidates),
              ElementsAre("scheduled", "4 tiles", "unscheduled"));
  EXPECT_TRUE(AsksForCopyEngine(candidates[1].program.ops[0].attrs));
  EXPECT_EQ(candidates[1].inputs.size(), 1);
}

TEST(RunGate, JsonSaysWhatWasMeasuredAndWhatWasNot) {
  GateResult result{.kept = 1,
                    .remembered = true,
                    .trials = {{.name = "a", .left_out = "needs 1 GiB"},
                               {.name = "b", .median_us = 3, .min_us = 2}}};
  EXPECT_EQ(ToJson(result).dump(),
            R"({"kept":"b","remembered":true,"trials":[)"
            R"({"name":"a","left_out":"needs 1 GiB"},)"
            R"({"name":"b","median_us":3.0,"min_us":2.0}]})");
}

}  // namespace
}  // namespace asyra
