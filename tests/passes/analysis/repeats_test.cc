#include "passes/analysis/repeats.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/parser.h"
#include "ir/support/check.h"
#include "models/models.h"

namespace asyra {
namespace {

using ::testing::ElementsAre;

std::vector<std::vector<int>> RepeatsOf(const Program& program) {
  std::vector<std::vector<int>> rows;
  for (const Repeat& repeat : FindRepeats(program)) {
    rows.push_back({repeat.begin, repeat.period, repeat.count});
  }
  return rows;
}

std::vector<std::vector<int>> RepeatsOf(const std::string& body) {
  return RepeatsOf(ASYRA_VALUE(ParseProgram(
      "asyra 1 global\nprogram @f(%x: f32[4, 8], %v: f32[8, 8] weight, %w: "
      "f32[8, 8] weight, %u: f32[8, 6] weight) -> (f32[4, 8]) {\n" +
      body + "}\n")));
}

std::vector<std::string> NamesOf(const Program& program,
                                 const std::vector<ValueId>& values) {
  std::vector<std::string> names;
  for (ValueId value : values) names.push_back(program.value_name(value));
  return names;
}

TEST(FindRepeats, FindsAChainOfEqualStretches) {
  EXPECT_THAT(RepeatsOf(R"(%h = exp(%x) : f32[4, 8]
%a = matmul(%h, %v) : f32[4, 8]
%b = silu(%a) : f32[4, 8]
%anything = matmul(%b, %w) : f32[4, 8]
%c = silu(%anything) : f32[4, 8]
%d = matmul(%c, %w) : f32[4, 8]
%e = silu(%d) : f32[4, 8]
%y = neg(%e) : f32[4, 8]
return %y
)"),
              ElementsAre(ElementsAre(0, 1, 1), ElementsAre(1, 2, 3),
                          ElementsAre(7, 1, 1)));
}

TEST(FindRepeats, WhatIsSideBySideIsNoRepeat) {
  EXPECT_THAT(RepeatsOf(R"(%a = matmul(%x, %v) : f32[4, 8]
%b = matmul(%x, %w) : f32[4, 8]
%y = add(%a, %b) : f32[4, 8]
return %y
)"),
              ElementsAre(ElementsAre(0, 3, 1)));
}

TEST(FindRepeats, AttributesTypesAndOperandsMustAgree) {
  // Another exponent, another operand, another type.
  EXPECT_THAT(RepeatsOf(R"(%a = matmul(%x, %v) : f32[4, 8]
%b = softmax(%a) {dim=1} : f32[4, 8]
%c = matmul(%b, %v) : f32[4, 8]
%y = softmax(%c) {dim=0} : f32[4, 8]
return %y
)"),
              ElementsAre(ElementsAre(0, 4, 1)));
  EXPECT_THAT(RepeatsOf(R"(%a = exp(%x) : f32[4, 8]
%b = add(%a, %x) : f32[4, 8]
%c = exp(%b) : f32[4, 8]
%d = add(%c, %c) : f32[4, 8]
%e = exp(%d) : f32[4, 8]
%y = add(%e, %x) : f32[4, 8]
return %y
)"),
              ElementsAre(ElementsAre(0, 6, 1)));
}

TEST(FindRepeats, ValuesOfOneLayerMayBeReadInTheNextButNotLater) {
  // Each stretch reads the exp of the one before; all read the first sin.
  EXPECT_THAT(RepeatsOf(R"(%s = sin(%x) : f32[4, 8]
%a0 = exp(%x) : f32[4, 8]
%b0 = add(%a0, %s) : f32[4, 8]
%a1 = exp(%b0) : f32[4, 8]
%b1 = add(%a1, %s) : f32[4, 8]
%a2 = exp(%b1) : f32[4, 8]
%b2 = add(%a2, %s) : f32[4, 8]
%y = mul(%b2, %a0) : f32[4, 8]
return %y
)"),
              ElementsAre(ElementsAre(0, 1, 1), ElementsAre(1, 2, 3),
                          ElementsAre(7, 1, 1)));
}

TEST(FindRepeats, CutsAtTheResidual) {
  Program program = ASYRA_VALUE(BuiltinModel("llama3-tiny", {{"layers", 5}}));
  std::vector<Repeat> repeats = FindRepeats(program);
  ASSERT_EQ(repeats.size(), 3u);
  EXPECT_EQ(repeats[0].period, 1);  // the embedding
  EXPECT_EQ(repeats[1].count, 5);
  EXPECT_EQ(repeats[2].period, 2);  // the last norm, the logits
  EXPECT_THAT(NamesOf(program, ValuesInto(program, repeats[1])),
              ElementsAre("embedding"));
  EXPECT_THAT(NamesOf(program, ValuesOutOf(program, repeats[1])),
              ElementsAre("layer4.mlp.residual"));
}

// A chain of matmuls and its gradient: stretch j of the backward run reads
// what stretch 2 - j of the forward run has kept, and the same weight.
TEST(FindRepeats, ABackwardRunMirrorsTheForwardRun) {
  Program program = ASYRA_VALUE(ParseProgram(R"(asyra 1 global
program @f(%x: f32[4, 8],
    %w0: f32[8, 8] weight,
    %w1: f32[8, 8] weight,
    %w2: f32[8, 8] weight,
    %w3: f32[8, 8] weight) -> (f32[4, 8]) {
%y0 = matmul(%x, %w0) : f32[4, 8]
%h0 = tanh(%y0) : f32[4, 8]
%y1 = matmul(%h0, %w1) : f32[4, 8]
%h1 = tanh(%y1) : f32[4, 8]
%y2 = matmul(%h1, %w2) : f32[4, 8]
%h2 = tanh(%y2) : f32[4, 8]
%y3 = matmul(%h2, %w3) : f32[4, 8]
%h3 = tanh(%y3) : f32[4, 8]
%g3 = exp(%h3) : f32[4, 8]
%d3 = mul(%g3, %y3) : f32[4, 8]
%g2 = matmul(%d3, %w3) {transpose_b=true} : f32[4, 8]
%d2 = mul(%g2, %y2) : f32[4, 8]
%g1 = matmul(%d2, %w2) {transpose_b=true} : f32[4, 8]
%d1 = mul(%g1, %y1) : f32[4, 8]
%g0 = matmul(%d1, %w1) {transpose_b=true} : f32[4, 8]
%d0 = mul(%g0, %y0) : f32[4, 8]
%dx = matmul(%d0, %w0) {transpose_b=true} : f32[4, 8]
return %dx
}
)"));
  std::vector<Repeat> repeats = FindRepeats(program);
  ASSERT_EQ(repeats.size(), 3u);
  EXPECT_EQ(repeats[0].count, 4);
  EXPECT_EQ(repeats[0].mirror_of, -1);
  EXPECT_EQ(repeats[1].count, 1);  // the loss
  EXPECT_EQ(repeats[2].begin, 9);
  EXPECT_EQ(repeats[2].count, 4);
  EXPECT_EQ(repeats[2].mirror_of, 0);
  EXPECT_EQ(repeats[2].mirrored, 3);
}

TEST(FindRepeats, CoversProgramsWithoutGaps) {
  for (const char* name : {"gpt3-tiny", "qwen3-moe-tiny", "llama3-8b"}) {
    Program program = ASYRA_VALUE(BuiltinModel(name, {}));
    int at = 0;
    for (const Repeat& repeat : FindRepeats(program)) {
      EXPECT_EQ(repeat.begin, at) << name;
      EXPECT_GT(repeat.period, 0) << name;
      at = repeat.end();
    }
    EXPECT_EQ(at, static_cast<int>(program.ops.size())) << name;
  }
}

}  // namespace
}  // namespace asyra
