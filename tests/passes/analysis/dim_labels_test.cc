// Batch and tokens are told by their names and by what ops do with them, not by
// where they are.
#include "passes/analysis/dim_labels.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/parser.h"
#include "ir/support/check.h"
#include "models/models.h"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"
#include "simulator/cost/cost_model.h"
#include "simulator/cost/load_machine.h"
#include "simulator/machine/machine.h"

namespace asyra {
namespace {

// Of each dimension: b for the batch, t for tokens, - for neither.
std::string Letters(const std::vector<DimLabel>& labels) {
  std::string letters;
  for (DimLabel label : labels) letters += "-bt"[static_cast<int>(label)];
  return letters;
}

std::string LabelsOf(std::string_view text, std::string_view value,
                     const DimNames& names = {}) {
  Program program = ASYRA_VALUE(ParseProgram(text));
  DimLabels labels = ASYRA_VALUE(DimLabels::Of(program, names));
  return Letters(labels.values[program.FindValue(value)]);
}

// Channels first, as in front of a speech model: tokens are the positions that
// the convolution leaves.
TEST(DimLabels, TokensAreTheRowsOfAttentionBehindAConvolution) {
  constexpr std::string_view kText = R"(asyra 1 global
program @f(%feats: f32[4, 6, 32], %w: f32[16, 6, 3] weight,
    %mask: f32[1, 1, 16, 16]) -> (f32[4, 16, 2, 8]) {
  %c = conv(%feats, %w) {strides=[2], pads=[1, 1], dilations=[1]} : f32[4, 16, 16]
  %t = transpose(%c) {perm=[0, 2, 1]} : f32[4, 16, 16]
  %h = reshape(%t) {shape=[4, 16, 2, 8]} : f32[4, 16, 2, 8]
  %a = attention(%h, %h, %h, %mask) {scale=0.3} : f32[4, 16, 2, 8]
  return %a
}
)";
  EXPECT_EQ(LabelsOf(kText, "feats"), "b--");
  EXPECT_EQ(LabelsOf(kText, "c"), "b-t");
  EXPECT_EQ(LabelsOf(kText, "a"), "bt--");
  EXPECT_EQ(LabelsOf(kText, "mask"), "--tt");
}

// Each has tokens of its own; the mask has those of the encoder.
TEST(DimLabels, EncoderAndDecoderHaveTokensOfTheirOwn) {
  constexpr std::string_view kText = R"(asyra 1 global
program @f(%x: f32[4, 8, 2, 16], %mem: f32[4, 24, 32], %mask: f32[4, 1, 1, 24],
    %wk: f32[32, 32] weight) -> (f32[4, 8, 2, 16]) {
  %k = matmul(%mem, %wk) : f32[4, 24, 32]
  %kh = reshape(%k) {shape=[4, 24, 2, 16]} : f32[4, 24, 2, 16]
  %a = attention(%x, %kh, %kh, %mask) {scale=0.3} : f32[4, 8, 2, 16]
  return %a
}
)";
  EXPECT_EQ(LabelsOf(kText, "x"), "bt--");
  EXPECT_EQ(LabelsOf(kText, "mem"), "bt-");
  EXPECT_EQ(LabelsOf(kText, "mask"), "b--t");
}

TEST(DimLabels, TimeMayComeBeforeTheBatch) {
  constexpr std::string_view kText = R"(asyra 1 global
program @f(%x: f32[8, 4, 2, 16]) -> (f32[4, 8, 2, 16]) {
  %t = transpose(%x) {perm=[1, 0, 2, 3]} : f32[4, 8, 2, 16]
  %a = attention(%t, %t, %t) {scale=0.3} : f32[4, 8, 2, 16]
  return %a
}
)";
  EXPECT_EQ(LabelsOf(kText, "x"), "tb--");
}

// Heads are done for each index as the batch is, and come behind it.
TEST(DimLabels, HeadsAreNoBatch) {
  constexpr std::string_view kText = R"(asyra 1 global
program @f(%x: f32[4, 2, 8, 16]) -> (f32[4, 8, 2, 16]) {
  %t = transpose(%x) {perm=[0, 2, 1, 3]} : f32[4, 8, 2, 16]
  %a = attention(%t, %t, %t) {scale=0.3} : f32[4, 8, 2, 16]
  return %a
}
)";
  EXPECT_EQ(LabelsOf(kText, "x"), "b-t-");
}

TEST(DimLabels, RowsOfMatmulsAreBatchThenTokensAndFeaturesNeither) {
  constexpr std::string_view kText = R"(asyra 1 global
program @f(%x: f32[4, 8, 16], %y: f32[4, 16], %w: f32[16, 6] weight)
    -> (f32[4, 8, 6], f32[4, 6]) {
  %a = matmul(%x, %w) : f32[4, 8, 6]
  %b = matmul(%y, %w) : f32[4, 6]
  return %a, %b
}
)";
  EXPECT_EQ(LabelsOf(kText, "x"), "bt-");
  EXPECT_EQ(LabelsOf(kText, "a"), "bt-");
  EXPECT_EQ(LabelsOf(kText, "y"), "b-");
}

// Matmuls over the tokens and over the features in turn: features come last.
TEST(DimLabels, TokensMayBeMixedByMatmuls) {
  constexpr std::string_view kText = R"(asyra 1 global
program @f(%x: f32[4, 8, 16], %wt: f32[8, 8] weight, %w: f32[16, 16] weight)
    -> (f32[4, 8, 16]) {
  %t = transpose(%x) {perm=[0, 2, 1]} : f32[4, 16, 8]
  %m = matmul(%t, %wt) : f32[4, 16, 8]
  %b = transpose(%m) {perm=[0, 2, 1]} : f32[4, 8, 16]
  %s = add(%x, %b) : f32[4, 8, 16]
  %y = matmul(%s, %w) : f32[4, 8, 16]
  return %y
}
)";
  EXPECT_EQ(LabelsOf(kText, "x"), "bt-");
}

TEST(DimLabels, WhatNothingTellsOfGoesByPlace) {
  constexpr std::string_view kText = R"(asyra 1 global
program @f(%x: f32[4, 8, 16], %n: f32[4]) -> (f32[4, 8, 16], f32[4]) {
  %y = exp(%x) : f32[4, 8, 16]
  %m = exp(%n) : f32[4]
  return %y, %m
}
)";
  EXPECT_EQ(LabelsOf(kText, "x"), "bt-");
  EXPECT_EQ(LabelsOf(kText, "n"), "-");
}

// Merged by a reshape and split again.
TEST(DimLabels, MergedDimensionsKeepBoth) {
  constexpr std::string_view kText = R"(asyra 1 global
program @f(%x: f32[4, 8, 16], %w: f32[16, 16] weight) -> (f32[4, 8, 16]) {
  %r = reshape(%x) {shape=[32, 16]} : f32[32, 16]
  %m = matmul(%r, %w) : f32[32, 16]
  %s = reshape(%m) {shape=[4, 8, 16]} : f32[4, 8, 16]
  return %s
}
)";
  EXPECT_EQ(LabelsOf(kText, "x"), "bt-");
  EXPECT_EQ(LabelsOf(kText, "r"), "t-");
  EXPECT_EQ(LabelsOf(kText, "s"), "bt-");
}

// Channels come before the time, and matmuls mix both: by flow alone the last
// are features.
TEST(DimLabels, NamesDecideWhatFlowLeavesOpen) {
  constexpr std::string_view kText = R"(asyra 1 global
program @mixer(%x: f32[4, 6, 8], %wt: f32[8, 8] weight, %w: f32[6, 6] weight)
    -> (f32[4, 8, 6]) {
  %m = matmul(%x, %wt) : f32[4, 6, 8]
  %a = add(%x, %m) : f32[4, 6, 8]
  %t = transpose(%a) {perm=[0, 2, 1]} : f32[4, 8, 6]
  %y = matmul(%t, %w) : f32[4, 8, 6]
  return %y
}
)";
  EXPECT_EQ(LabelsOf(kText, "x"), "bt-");
  EXPECT_EQ(LabelsOf(kText, "x", {{"x", {"batch", "", "time"}}}), "b-t");
  EXPECT_EQ(LabelsOf(kText, "t", {{"x", {"batch", "", "time"}}}), "bt-");
  EXPECT_EQ(LabelsOf(kText, "x", {{"x", {"", "", "seq_len"}}}), "b-t");
  EXPECT_EQ(LabelsOf(kText, "x", {{"x", {"n", "c", "s0"}}}), "bt-");
}

TEST(DimLabels, NamesComeBeforePlaces) {
  constexpr std::string_view kText = R"(asyra 1 global
program @f(%x: f32[4, 8, 16]) -> (f32[4, 8, 16]) {
  %y = exp(%x) : f32[4, 8, 16]
  return %y
}
)";
  EXPECT_EQ(LabelsOf(kText, "x", {{"x", {"batch", "channels", "time"}}}),
            "b-t");
  EXPECT_EQ(LabelsOf(kText, "x", {{"x", {"time", "batch", ""}}}), "tb-");
  EXPECT_EQ(LabelsOf(kText, "x", {{"x", {"", "batch", ""}}}), "tb-");
  EXPECT_EQ(LabelsOf(kText, "x", {{"x", {"seq", "", ""}}}), "t--");
  EXPECT_EQ(LabelsOf(kText, "x", {{"other", {"time", "batch"}}}), "bt-");
  EXPECT_EQ(LabelsOf(kText, "x", {{"x", {"time"}}}), "t--");
}

TEST(DimLabels, RowsBesideANamedBatchAreTokens) {
  constexpr std::string_view kText = R"(asyra 1 global
program @f(%x: f32[8, 4, 16], %w: f32[16, 6] weight) -> (f32[8, 4, 6]) {
  %y = matmul(%x, %w) : f32[8, 4, 6]
  return %y
}
)";
  EXPECT_EQ(LabelsOf(kText, "x", {{"x", {"", "batch_size", ""}}}), "tb-");
  EXPECT_EQ(LabelsOf(kText, "x", {{"x", {"time", "", ""}}}), "tb-");
}

// What is done for each index behind a batch of that name is no batch.
TEST(DimLabels, HeadsBehindANamedBatchAreNone) {
  constexpr std::string_view kText = R"(asyra 1 global
program @f(%x: f32[4, 2, 8, 16]) -> (f32[4, 8, 2, 16]) {
  %t = transpose(%x) {perm=[0, 2, 1, 3]} : f32[4, 8, 2, 16]
  %a = attention(%t, %t, %t) {scale=0.3} : f32[4, 8, 2, 16]
  return %a
}
)";
  EXPECT_EQ(LabelsOf(kText, "x", {{"x", {"batch", "", "", ""}}}), "b-t-");
}

// One dimension of several inputs has all of their names; where they contradict
// each other, each input has its own.
TEST(DimLabels, NamesHoldForInputsThatMeetUnlessTheyContradict) {
  constexpr std::string_view kText = R"(asyra 1 global
program @f(%x: f32[8, 4], %y: f32[8, 4]) -> (f32[8, 4]) {
  %s = add(%x, %y) : f32[8, 4]
  return %s
}
)";
  EXPECT_EQ(LabelsOf(kText, "y", {{"x", {"seq", "batch"}}}), "tb");
  for (auto [input, labels] : {std::pair{"x", "tb"}, std::pair{"y", "bt"}}) {
    EXPECT_EQ(LabelsOf(kText, input,
                       {{"x", {"seq", "batch"}}, {"y", {"batch", "seq"}}}),
              labels);
  }
}

// Tiles start where the axes dp and sp shard.
TEST(DimLabels, InputsKeepThemWhenOpsArePartitionedAndFused) {
  for (std::string_view name : {"llama3-tiny", "gpt3-tiny", "qwen3-moe-tiny"}) {
    Program program = ASYRA_VALUE(BuiltinModel(name, {}));
    program.mesh = ASYRA_VALUE(Mesh::Create({{"sp", 2}, {"tp", 2}}));
    Machine machine = ASYRA_VALUE(LoadMachine("h200x8"));
    CostModel costs(machine, program.mesh);
    PassContext context;
    context.costs = &costs;
    auto inputs = [&] {
      DimLabels labels = ASYRA_VALUE(DimLabels::Of(program));
      std::string letters;
      for (const Input& input : program.inputs) {
        if (input.role != InputRole::kData) continue;
        letters += Letters(labels.values[input.value]) + " ";
      }
      return letters;
    };
    std::string global = inputs();
    EXPECT_NE(global.find('t'), std::string::npos) << name;
    for (const Pipeline& passes : {ShardPasses(), FusePasses()}) {
      ASSERT_EQ(RunPasses(program, passes, context), absl::OkStatus());
      EXPECT_EQ(inputs(), global) << name;
    }
  }
}

}  // namespace
}  // namespace asyra
