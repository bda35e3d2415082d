#include "passes/pass_manager.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/parser.h"
#include "ir/support/check.h"
#include "ir/support/file.h"
#include "passes/pipeline.h"
#include "simulator/cost/cost_model.h"
#include "simulator/machine/machine.h"
#include "tests/support/costs.h"

namespace asyra {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

// Of stage global. What canonicalize finds in it: x + 0.
Program Sum() {
  return ASYRA_VALUE(ParseProgram(R"(asyra 1 global
mesh (tp=2)
program @sum(%x: f32[64, 64]) -> (f32[64, 64]) {
  %zero = constant() {value=f32[](0)} : f32[]
  %same = add(%x, %zero) : f32[64, 64]
  %y = exp(%same) : f32[64, 64]
  return %y
}
)"));
}

TEST(Pipeline, UnknownPassesAndOptionsAreRefused) {
  auto error = [](std::string_view text) {
    return ParsePipeline(text).status().ToString();
  };
  EXPECT_THAT(error("nonsense"),
              testing::HasSubstr("unknown pass nonsense, known are"));
  EXPECT_THAT(error("tile{tiels=2}"),
              testing::HasSubstr("pass tile: unknown option tiels"));
  EXPECT_THAT(error("tile{tiles=many}"),
              testing::HasSubstr("option tiles: 'many' is not of kind int"));
  EXPECT_THAT(error("tile{tiles=2"), testing::HasSubstr("expected '}'"));
}

TEST(Pipeline, StageOfThePassIsChecked) {
  Program program = Sum();
  PassContext context;
  EXPECT_THAT(RunPasses(program, "reorder", context).ToString(),
              testing::HasSubstr(
                  "reorder: the program is global, the pass takes scheduled"));
}

TEST(Pipeline, TextIsReadBack) {
  for (const Pipeline& pipeline :
       {RaisePasses(), RaisePasses({.expert_capacity_percent = 150}),
        ShardPasses(),
        ShardPasses({.pins = "a.*=0@tp;b=whole", .propagate = true}),
        ShardPasses({.experts = "dp,sp", .tp_strategy = "sequence"}),
        DecomposePasses(true), FusePasses(true, "none"), StreamPasses(false),
        LowerPasses()}) {
    std::string text = ToString(pipeline);
    Pipeline again = ASYRA_VALUE(ParsePipeline(text));
    EXPECT_EQ(ToString(again), text);
    ASSERT_EQ(again.size(), pipeline.size());
    for (size_t i = 0; i < again.size(); ++i) {
      EXPECT_EQ(again[i].pass, pipeline[i].pass);
      EXPECT_EQ(again[i].options, pipeline[i].options);
    }
  }
  EXPECT_EQ(ToString(FusePasses()), "fuse");
  EXPECT_EQ(ToString(StreamPasses(false)),
            "trim_sm_margin, assign_streams{ctas=false}");
}

TEST(PassManager, PrintsWhatChanged) {
  Program program = Sum();
  PassContext context;
  std::vector<std::string> printed;
  PassManagerOptions options;
  options.print_changed = true;
  options.candidate = "2 tiles";
  options.print = [&](std::string_view text) { printed.emplace_back(text); };
  ASYRA_CHECK_OK(
      RunPasses(program, "canonicalize, canonicalize", context, options));
  EXPECT_THAT(printed, ElementsAre(StartsWith(
                           "// candidate: 2 tiles\n// after canonicalize\n")));
  options.print_after = "canon.*";
  ASYRA_CHECK_OK(RunPasses(program, "canonicalize", context, options));
  ASSERT_EQ(printed.size(), 2);
  EXPECT_THAT(printed[1], HasSubstr("canonicalize (changed nothing)"));
}

TEST(PassManager, DumpsWhatChangedInOrder) {
  std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / "asyra_dumps" / "inner";
  std::filesystem::remove_all(folder);
  Program program = Sum();
  PassContext context;
  PassManagerOptions options;
  options.dump_dir = folder.string();
  PassManagerOptions copy = options;  // counts on
  ASYRA_CHECK_OK(RunPasses(program, "canonicalize", context, options));
  ASYRA_CHECK_OK(RunPasses(program, "raise_norm, plan_sharding, partition",
                           context, copy));
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
    std::string text = ASYRA_VALUE(ReadFile(entry.path().string()));
    EXPECT_TRUE(ParseProgram(text).ok()) << text;
  }
  std::sort(names.begin(), names.end());
  EXPECT_THAT(names,
              ElementsAre("0001-canonicalize.asyra", "0002-plan_sharding.asyra",
                          "0003-partition.asyra"));
  std::filesystem::remove_all(folder);
  options.dump_dir = "/dev/null/dumps";
  EXPECT_THAT(
      std::string(RunPasses(program, "fuse", context, options).message()),
      StartsWith("--dump-dir /dev/null/dumps: "));
}

TEST(PassManager, SimulatesEachLocalProgram) {
  Program program = Sum();
  CostModel costs = Costs(program);
  PassContext context{.costs = &costs};
  std::vector<std::string> printed;
  PassManagerOptions options;
  options.simulate_each = true;
  options.print = [&](std::string_view text) { printed.emplace_back(text); };
  ASYRA_CHECK_OK(RunPasses(
      program, "canonicalize, plan_sharding, partition, start_collectives",
      context, options));
  EXPECT_THAT(printed,
              ElementsAre(MatchesRegex("after partition: [0-9.]+ us a step\n"),
                          MatchesRegex(
                              "after start_collectives: [0-9.]+ us a step\n")));
}

}  // namespace
}  // namespace asyra
