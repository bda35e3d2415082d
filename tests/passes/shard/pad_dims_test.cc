#include "passes/shard/pad_dims.h"

#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "ir/verify/verifier.h"
#include "models/models.h"
#include "simulator/cost/cost_model.h"
#include "tests/support/costs.h"
#include "tests/support/parse.h"

namespace asyra {
namespace {

using ::testing::HasSubstr;

Program Global(const std::string& signature, const std::string& body) {
  return Parse("asyra 1 global\nprogram @f(" + signature + " {\n" + body +
               "}\n");
}

// Inputs of small integers; weights in the shape they are given.
std::vector<Tensor> SmallIntegers(const Program& program, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Tensor> inputs;
  for (const Input& input : program.inputs) {
    const Type& type = program.type(input.value);
    Tensor tensor(type.dtype, program.GivenShape(input));
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      auto value = static_cast<int64_t>(random() % 5);
      // Indices of at least 5 rows, from either end.
      bool from_end = !IsFloat(type.dtype) && random() % 2 == 0;
      tensor.SetInt(i, IsFloat(type.dtype) ? value - 2
                       : from_end          ? value - 5
                                           : value);
    }
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

// Pads and compares what both programs compute, exactly. Whether it padded.
bool PadsAndComputesTheSame(const Program& program, int64_t from, int64_t to) {
  auto padded = ASYRA_VALUE(PadDimensions(program, from, to));
  if (!padded.has_value()) return false;
  SCOPED_TRACE(ToString(program) + ToString(*padded));
  absl::Status verified = Verify(*padded);
  EXPECT_TRUE(verified.ok()) << verified;
  EXPECT_EQ(ToString(ASYRA_VALUE(ParseProgram(ToString(*padded)))),
            ToString(*padded));
  for (uint64_t seed : {1, 2, 3}) {
    std::vector<Tensor> inputs = SmallIntegers(program, seed);
    auto expected = ASYRA_VALUE(Interpret(program, inputs));
    auto actual = ASYRA_VALUE(Interpret(*padded, inputs));
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(SameBytes(actual[i], expected[i]));
    }
  }
  return true;
}

TEST(PadDimensions, PadsWeightsAndCutsOutputs) {
  Program program = Global(
      "%x: f32[8, 16], %w: f32[16, 10] weight) -> "
      "(f32[8, 10])",
      "%y = matmul(%x, %w) : f32[8, 10]\nreturn %y\n");
  auto padded = ASYRA_VALUE(PadDimensions(program, 10, 12));
  ASSERT_TRUE(padded.has_value());
  EXPECT_EQ(ToString(*padded), R"(asyra 1 global

program @f(%x: f32[8, 16],
    %w: f32[16, 12] weight padded from [16, 10]) -> (f32[8, 10]) {
  %y.padded = matmul(%x, %w) : f32[8, 12]
  %y = slice(%y.padded) {dim=1, start=0, stop=10} : f32[8, 10]
  return %y
}
)");
}

TEST(PadDimensions, ATiedVocabulary) {
  Program program = Global(
      "%ids: i64[2, 3], %t: f32[5, 4] weight, %b: f32[5] weight) -> "
      "(f32[2, 3, 5], f32[2, 3, 5])",
      R"(%e = embedding(%t, %ids) : f32[2, 3, 4]
%p = matmul(%e, %t) {transpose_b=true} : f32[2, 3, 5]
%l = add(%p, %b) : f32[2, 3, 5]
%s = softmax(%l) {dim=2} : f32[2, 3, 5]
return %l, %s
)");
  EXPECT_TRUE(PadsAndComputesTheSame(program, 5, 8));
  auto padded = ASYRA_VALUE(PadDimensions(program, 5, 8));
  std::string text = ToString(*padded);
  EXPECT_THAT(text, HasSubstr("%t: f32[8, 4] weight padded from [5, 4]"));
  EXPECT_THAT(text, HasSubstr("%e = embedding(%t, %ids) {rows=5}"));
  EXPECT_THAT(text, HasSubstr("%b: f32[8] weight padded from [5]"));
  EXPECT_THAT(text, HasSubstr("%s = softmax(%l) {dim=2} : f32[2, 3, 5]"));
}

// The intermediate size of an MLP, through what `f` does to its zeros.
Program Mlp(const std::string& f) {
  return Global(
      "%x: f32[2, 4], %u: f32[4, 5] weight, %d: f32[5, 4] weight) -> "
      "(f32[2, 4])",
      "%h = matmul(%x, %u) : f32[2, 5]\n" + f +
          "%y = matmul(%a, %d) : f32[2, 4]\nreturn %y\n");
}

TEST(PadDimensions, SumsOverPaddingThatIsFinitePass) {
  for (const char* f :
       {"%a = relu(%h) : f32[2, 5]\n", "%a = exp(%h) : f32[2, 5]\n",
        "%a = swiglu(%h, %h) : f32[2, 5]\n"}) {
    Program program = Mlp(f);
    EXPECT_TRUE(PadsAndComputesTheSame(program, 5, 6));
    // The matmul is over all of it.
    EXPECT_THAT(ToString(*ASYRA_VALUE(PadDimensions(program, 5, 6))),
                HasSubstr("%y = matmul(%a, %d) : f32[2, 4]"));
    EXPECT_EQ(ASYRA_VALUE(PadDimensions(program, 5, 6))->ops.size(),
              program.ops.size());
  }
}

TEST(PadDimensions, IsCutBeforeWhatItWouldChange) {
  // log(0) is infinite, and infinity times zero is no number.
  for (const char* f :
       {"%a = log(%h) : f32[2, 5]\n", "%a = div(%h, %h) : f32[2, 5]\n"}) {
    auto padded = ASYRA_VALUE(PadDimensions(Mlp(f), 5, 6));
    ASSERT_TRUE(padded.has_value());
    EXPECT_THAT(ToString(*padded), HasSubstr("slice(%a)"));
    EXPECT_THAT(ToString(*padded), HasSubstr("%d: f32[5, 4] weight"));
  }
}

TEST(PadDimensions, WhateverFollowsComputesTheSame) {
  for (const char* op :
       {"reduce_mean(%h) {dims=[1]} : f32[2, 1]",
        "reduce_sum(%h) {dims=[1]} : f32[2, 1]",
        "reduce_max(%h) {dims=[1]} : f32[2, 1]",
        "reduce_min(%h) {dims=[1]} : f32[2, 1]",
        "log_sum_exp(%h) {dims=[1]} : f32[2, 1]",
        "cumsum(%h) {dim=1} : f32[2, 5]", "softmax(%h) {dim=1} : f32[2, 5]",
        "arg_max(%h) {dim=1} : i64[2, 1]",
        "slice(%h) {dim=1, start=0, stop=5} : f32[2, 5]",
        "transpose(%h) {perm=[1, 0]} : f32[5, 2]",
        "reshape(%h) {shape=[10]} : f32[10]", "add(%h, %x5) : f32[2, 5]"}) {
    std::string text = op;
    std::string type = text.substr(text.rfind(": ") + 2);
    Program program = Global(
        "%x: f32[2, 4], %x5: f32[2, 5], %u: f32[4, 5] "
        "weight) -> (" +
            type + ")",
        "%h = matmul(%x, %u) : f32[2, 5]\n%y = " + text + "\nreturn %y\n");
    EXPECT_TRUE(PadsAndComputesTheSame(program, 5, 8)) << op;
  }
}

TEST(PadDimensions, RowsThatMayBeCountedFromTheEndStay) {
  Program program =
      Global("%i: i64[2, 4], %t: f32[5, 4] weight) -> (f32[2, 4])",
             "%y = gather_elements(%t, %i) {dim=0} : f32[2, 4]\nreturn %y\n");
  EXPECT_FALSE(ASYRA_VALUE(PadDimensions(program, 5, 8)).has_value());
}

TEST(PadDimensions, OneDimensionOfAWeightMayBePaddedWithoutTheOther) {
  Program program = Global(
      "%x: f32[2, 5], %v: f32[5, 5] weight, %w: f32[5, 5] weight) -> "
      "(f32[2, 5])",
      R"(%h = matmul(%x, %v) : f32[2, 5]
%y = matmul(%h, %w) : f32[2, 5]
return %y
)");
  EXPECT_TRUE(PadsAndComputesTheSame(program, 5, 8));
  std::string text = ToString(*ASYRA_VALUE(PadDimensions(program, 5, 8)));
  EXPECT_THAT(text, HasSubstr("%v: f32[5, 8] weight padded from [5, 5]"));
  EXPECT_THAT(text, HasSubstr("%w: f32[8, 8] weight padded from [5, 5]"));
}

// What holds in the padding of one dimension need not in that of another:
// exp(0) * w is no zero.
TEST(PadDimensions, FillsOfTwoFactorsMustAgree) {
  Program program = Global(
      "%u: f64[5, 4] weight, %x: f64[4, 3], %w: f64[3, 5] weight, %d: f64[5, "
      "2] weight) -> (f64[2, 5])",
      R"(%a = matmul(%u, %x) : f64[5, 3]
%e = exp(%a) : f64[5, 3]
%m = matmul(%e, %w) : f64[5, 5]
%t = transpose(%m) {perm=[1, 0]} : f64[5, 5]
%s = matmul(%t, %d) : f64[5, 2]
%y = transpose(%s) {perm=[1, 0]} : f64[2, 5]
return %y
)");
  EXPECT_TRUE(PadsAndComputesTheSame(program, 5, 8));
}

TEST(PadDimensions, WhatIsCutAtOnceIsNotPadded) {
  Program program = Global(
      "%x: f32[2, 5], %w: f32[5, 4] weight, %s: f32[5] weight) -> "
      "(f32[2, 4])",
      R"(%n = rms_norm(%x, %s) {eps=1e-05} : f32[2, 5]
%y = matmul(%n, %w) : f32[2, 4]
return %y
)");
  EXPECT_FALSE(ASYRA_VALUE(PadDimensions(program, 5, 8)).has_value());
}

// Random programs over values [2, 5]; most of their weights are padded, in one
// dimension or in both.
TEST(PadDimensions, RandomProgramsComputeTheSame) {
  int padded = 0;
  for (int seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    std::string weights, body;
    int count = 0;
    std::vector<std::string> values = {"x"};
    auto any = [&] { return "%" + values[random() % values.size()]; };
    auto weight = [&](const std::string& shape) {
      std::string name = "%w" + std::to_string(count++);
      weights += ", " + name + ": f64" + shape + " weight";
      return name;
    };
    auto op = [&](const std::string& text, const std::string& shape) {
      std::string name = "v" + std::to_string(count++);
      body += "%" + name + " = " + text + " : f64" + shape + "\n";
      return name;
    };
    for (int step = 0; step < 8; ++step) {
      std::string v;
      switch (random() % 8) {
        case 0:
          v = op("matmul(" + any() + ", " + weight("[5, 5]") + ")", "[2, 5]");
          break;
        case 1:
          v = op("matmul(" + any() + ", " + weight("[5, 5]") +
                     ") {transpose_b=true}",
                 "[2, 5]");
          break;
        case 2:
          v = op("add(" + any() + ", " + weight("[5]") + ")", "[2, 5]");
          break;
        case 3:
          v = op("mul(" + any() + ", " + any() + ")", "[2, 5]");
          break;
        case 4:
          v = op("relu(" + any() + ")", "[2, 5]");
          break;
        case 5: {
          std::string sum =
              op("reduce_max(" + any() + ") {dims=[1]}", "[2, 1]");
          v = op("sub(" + any() + ", %" + sum + ")", "[2, 5]");
          break;
        }
        case 6: {
          std::string t =
              op("transpose(" + any() + ") {perm=[1, 0]}", "[5, 2]");
          std::string m =
              op("matmul(" + weight("[5, 5]") + ", %" + t + ")", "[5, 2]");
          v = op("transpose(%" + m + ") {perm=[1, 0]}", "[2, 5]");
          break;
        }
        default:
          v = op("min(" + any() + ", " + any() + ")", "[2, 5]");
      }
      values.push_back(v);
    }
    Program program = Global("%x: f64[2, 5]" + weights + ") -> (f64[2, 5])",
                             body + "return %" + values.back() + "\n");
    padded += PadsAndComputesTheSame(program, 5, 8);
  }
  EXPECT_GT(padded, 100);
}

class PadDimsOver : public ::testing::Test {
 protected:
  // The remarks of padding `program` over tp.
  std::vector<std::string> Pad(Program* program, int64_t tp) {
    program->mesh = ASYRA_VALUE(Mesh::Create({{"tp", tp}}));
    CostModel costs = Costs(*program);
    PassContext context;
    context.costs = &costs;
    PadOptions options;
    options.plan.costs.model = &costs;
    changed_ = ASYRA_VALUE(PadDims(*program, options, context));
    return context.remarks;
  }
  bool changed_ = false;
};

TEST_F(PadDimsOver, TheRemarkSaysWhatCostLess) {
  int padded = 0;
  for (int64_t hidden : {64, 8192}) {
    Program program =
        ASYRA_VALUE(BuiltinModel("gpt3-tiny", {{"vocabulary", 50257},
                                               {"hidden", hidden},
                                               {"heads", 8},
                                               {"batch", 1},
                                               {"seq", 64},
                                               {"layers", 1}}));
    std::vector<std::string> remarks = Pad(&program, 4);
    ASSERT_EQ(remarks.size(), 1u);
    EXPECT_THAT(remarks[0],
                HasSubstr("50257 elements of %embed_tokens.weight"));
    EXPECT_THAT(remarks[0],
                HasSubstr(changed_ ? "are padded: " : "are not padded: "));
    EXPECT_THAT(remarks[0], HasSubstr("s with padding, "));
    padded += changed_;
  }
  EXPECT_GE(padded, 1);
}

// Rows of 50257 16-bit elements begin at odd ones, on one device too.
TEST_F(PadDimsOver, OddVocabulariesOf16BitsAreAligned) {
  for (auto [tp, to] : {std::pair(1, 50264), std::pair(4, 50272)}) {
    Program program = ASYRA_VALUE(BuiltinModel(
        "gpt2-124m", {{"vocabulary", 50257}, {"batch", 4}, {"layers", 1}}));
    std::vector<std::string> remarks = Pad(&program, tp);
    ASSERT_EQ(remarks.size(), 1u);
    EXPECT_TRUE(changed_) << remarks[0];
    EXPECT_THAT(ToString(program),
                HasSubstr(fmt::format("%embed_tokens.weight: bf16[{}, 768] "
                                      "weight padded from [50257, 768]",
                                      to)));
  }
}

TEST_F(PadDimsOver, WhatDividesIsLeftAlone) {
  Program program = ASYRA_VALUE(BuiltinModel("gpt3-tiny", {}));
  EXPECT_TRUE(Pad(&program, 4).empty());
  EXPECT_FALSE(changed_);
}

TEST_F(PadDimsOver, WithoutCostsIsAnErrorWhereItWouldDecide) {
  Program program =
      ASYRA_VALUE(BuiltinModel("gpt3-tiny", {{"vocabulary", 50257}}));
  program.mesh = ASYRA_VALUE(Mesh::Create({{"tp", 4}}));
  PassContext context;
  auto result = PadDims(program, {}, context);
  EXPECT_THAT(std::string(MessageOf(result.status())),
              HasSubstr("PassContext::costs"));
}

}  // namespace
}  // namespace asyra
