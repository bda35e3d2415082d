// Which bodies are a matmul with an epilogue, and what is refused beside one.
#include "ir/gpu/epilogue.h"

#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "ir/parser.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "tests/ir/op_case.h"

namespace asyra {
namespace {

// Of `fusion(operands) {matmul; body}`, whose matmul %p is f32[4,8], or of
// another type instead of f32.
ParsedCall Fusion(std::string_view operands, std::string_view body,
                  const std::string& type = "f32") {
  std::string text = fmt::format(
      "fusion(f32[4,6], f32[6,8]{}) {{%p = matmul(%0, %1) : f32[4,8] {}}}",
      operands, body);
  return ASYRA_VALUE(
      ParseCall(absl::StrReplaceAll(text, {{"f32", type}}), Mesh()));
}

std::string EpilogueText(std::string_view operands, std::string_view body,
                         const std::string& type = "f32") {
  ParsedCall call = Fusion(operands, body, type);
  auto epilogue = EpilogueOf(*BodyOf(call.attrs), call.operands);
  return epilogue.has_value() ? ToString(*epilogue) : "";
}

TEST(Epilogue, IsReadInAnyOrderOfItsSums) {
  EXPECT_EQ(EpilogueText("", "return %p"), "none");
  EXPECT_EQ(EpilogueText("", "%y = relu(%p) : f32[4,8] return %y"), "relu");
  EXPECT_EQ(EpilogueText(", f32[8]", "%y = add(%p, %2) : f32[4,8] return %y"),
            "bias");
  EXPECT_EQ(EpilogueText(", f32[1,8]", "%y = add(%2, %p) : f32[4,8] return %y"),
            "bias");
  EXPECT_EQ(EpilogueText(", f32[4,8]", "%y = add(%2, %p) : f32[4,8] return %y"),
            "residual");
  for (const char* sums :
       {"%s = add(%p, %2) : f32[4,8] %t = add(%3, %s) : f32[4,8]",
        "%s = add(%3, %p) : f32[4,8] %t = add(%s, %2) : f32[4,8]"}) {
    EXPECT_EQ(EpilogueText(", f32[8], f32[4,8]",
                           fmt::format("{} %y = relu(%t) : f32[4,8] "
                                       "return %y",
                                       sums)),
              "residual+bias+relu");
  }
}

TEST(Epilogue, HasElementTypes) {
  for (const char* type : {"f16", "bf16", "f32", "f64"}) {
    bool is_f64 = type == std::string_view("f64");
    EXPECT_EQ(EpilogueText("", "%y = relu(%p) : f32[4,8] return %y", type),
              is_f64 ? "" : "relu");
    bool is_bf16 = type == std::string_view("bf16");
    EXPECT_EQ(EpilogueText("", "%y = gelu_tanh(%p) : f32[4,8] return %y", type),
              is_bf16 ? "gelu_tanh" : "");
  }
}

TEST(Epilogue, NamesOperandsOfTheBody) {
  ParsedCall call = Fusion(", f32[4,8], f32[8]",
                           "%s = add(%p, %3) : f32[4,8] "
                           "%t = add(%s, %2) : f32[4,8] return %t");
  auto epilogue = EpilogueOf(*BodyOf(call.attrs), call.operands);
  ASSERT_TRUE(epilogue.has_value());
  EXPECT_EQ(epilogue->residual, 2);
  EXPECT_EQ(epilogue->bias, 3);
  EXPECT_EQ(epilogue->activation, Epilogue::kNone);
}

TEST(Epilogue, IsNotWhatNoLibraryComputes) {
  struct Case {
    std::string_view operands, body;
  };
  for (const Case& other : std::initializer_list<Case>{
           // Other functions, and gelu by the error function.
           {"", "%y = gelu(%p) : f32[4,8] return %y"},
           {"", "%y = silu(%p) : f32[4,8] return %y"},
           {", f32[8]", "%y = mul(%p, %2) : f32[4,8] return %y"},
           // Something behind the activation.
           {", f32[8]",
            "%r = relu(%p) : f32[4,8] %y = add(%r, %2) : f32[4,8] return %y"},
           {"", "%r = relu(%p) : f32[4,8] %y = relu(%r) : f32[4,8] return %y"},
           // Columns, a scalar, more than one of each.
           {", f32[4,1]", "%y = add(%p, %2) : f32[4,8] return %y"},
           {", f32[]", "%y = add(%p, %2) : f32[4,8] return %y"},
           {", f32[8], f32[8]",
            "%s = add(%p, %2) : f32[4,8] %y = add(%s, %3) : f32[4,8] "
            "return %y"},
           {", f32[4,8], f32[4,8]",
            "%s = add(%p, %2) : f32[4,8] %y = add(%s, %3) : f32[4,8] "
            "return %y"},
           // What is added is made in the body, or is the matmul itself.
           {", f32[8]",
            "%b = neg(%2) : f32[8] %y = add(%p, %b) : f32[4,8] return %y"},
           {"", "%y = add(%p, %p) : f32[4,8] return %y"},
           // The result is larger than the matmul, or not the only one.
           {", f32[2,4,8]", "%y = add(%p, %2) : f32[2,4,8] return %y"},
           {"", "%y = relu(%p) : f32[4,8] return %p, %y"},
       }) {
    EXPECT_EQ(EpilogueText(other.operands, other.body), "") << other.body;
  }
}

TEST(Epilogue, NeedsAMatmul) {
  ParsedCall call = ASYRA_VALUE(
      ParseCall("fusion(f32[4,8], f32[8]) {%s = add(%0, %1) : f32[4,8] "
                "%y = relu(%s) : f32[4,8] return %y}",
                Mesh()));
  EXPECT_FALSE(EpilogueOf(*BodyOf(call.attrs), call.operands).has_value());
}

// The work is that of the matmul, what is read besides, and the arithmetic
// behind it.
TEST(Epilogue, WorkIsThatOfAMatmul) {
  ParsedCall call = Fusion(", f32[8], f32[4,8]",
                           "%s = add(%p, %2) : f32[4,8] "
                           "%t = add(%s, %3) : f32[4,8] return %t");
  auto results =
      ASYRA_VALUE(InferTypes(*call.def, call.attrs, call.operands, Mesh()));
  Work work = WorkOf({*call.def, call.attrs, call.operands, results}, Mesh());
  EXPECT_TRUE(work.matrix);
  EXPECT_EQ(work.flops, 2 * 4 * 6 * 8);
  EXPECT_EQ(work.vector_flops, 2 * 4 * 8);
  EXPECT_EQ(work.rows, 4);
  EXPECT_EQ(work.cols, 8);
  EXPECT_EQ(work.read_bytes, 4 * (4 * 6 + 6 * 8 + 8 + 4 * 8));
  EXPECT_EQ(work.write_bytes, 4 * 4 * 8);
}

// The matmul reads a row for each column, also where others have written; what
// is added to it alone is read once (accumulation_test.cc).
TEST(Epilogue, ResultsLieOnNothingButAResidual) {
  ParsedCall call =
      Fusion(", f32[4,8]", "%s = add(%p, %2) : f32[4,8] return %s");
  auto results =
      ASYRA_VALUE(InferTypes(*call.def, call.attrs, call.operands, Mesh()));
  OpCall use = {*call.def, call.attrs, call.operands, results};
  for (int operand : {0, 1, 2}) {
    EXPECT_EQ(call.def->result_in_place(use, operand, 0), operand == 2);
  }
}

// One row of the result's type is a residual, which may be the result itself.
TEST(Epilogue, OfTheResultsTypeIsAResidual) {
  ParsedCall call =
      ASYRA_VALUE(ParseCall("fusion(f32[1,6], f32[6,8], f32[1,8], f32[8]) {"
                            "%p = matmul(%0, %1) : f32[1,8] "
                            "%s = add(%p, %2) : f32[1,8] "
                            "%t = add(%s, %3) : f32[1,8] return %t}",
                            Mesh()));
  auto epilogue = EpilogueOf(*BodyOf(call.attrs), call.operands);
  ASSERT_TRUE(epilogue.has_value());
  EXPECT_EQ(epilogue->residual, 2);
  EXPECT_EQ(epilogue->bias, 3);
}

// Libraries add a bias of the operands' type, which f32 is not.
TEST(Epilogue, OfAWiderResultIsAResidualAlone) {
  auto text_of = [](std::string_view added) {
    ParsedCall call = ASYRA_VALUE(
        ParseCall(fmt::format("fusion(bf16[6,4], bf16[6,8], {}) {{"
                              "%p = matmul_wgrad(%0, %1) : f32[4,8] "
                              "%s = add(%p, %2) : f32[4,8] return %s}}",
                              added),
                  Mesh()));
    auto epilogue = EpilogueOf(*BodyOf(call.attrs), call.operands);
    return epilogue.has_value() ? ToString(*epilogue) : "";
  };
  EXPECT_EQ(text_of("f32[4,8]"), "residual");
  EXPECT_EQ(text_of("f32[8]"), "");
}

// A sum is no sum before all summands are there: relu(a) + relu(b) is not
// relu(a + b), and a bias would be added by each device.
TEST(Epilogue, IsNotAppliedToPartialSums) {
  Mesh mesh = ParseMesh("(tp=2)");
  for (const char* behind : {"relu(%p)", "add(%p, %2)"}) {
    auto call =
        ParseCall(fmt::format("fusion(f32[4,6@tp], f32[6@tp,8]{}) {{"
                              "%p = matmul(%0, %1) : f32[4,8] partial(tp) "
                              "%y = {} : f32[4,8] return %y}}",
                              behind[0] == 'a' ? ", f32[8]" : "", behind),
                  mesh);
    EXPECT_THAT(std::string(MessageOf(call.status())),
                testing::HasSubstr("operand 0 must be whole along factor f"))
        << behind;
  }
}

// Parallel factors are sharded as ever, what is added with them.
TEST(Epilogue, IsShardedAlongRowsAndColumns) {
  Mesh mesh = ParseMesh("(dp=2, tp=2)");
  ParsedCall call = ASYRA_VALUE(
      ParseCall("fusion(f32[4@dp,6], f32[6,8@tp], f32[8@tp], f32[4@dp,8@tp]) {"
                "%4 = matmul(%0, %1) : f32[4@dp,8@tp] "
                "%5 = add(%4, %2) : f32[4@dp,8@tp] "
                "%6 = add(%5, %3) : f32[4@dp,8@tp] return %6}",
                mesh));
  auto results =
      ASYRA_VALUE(InferTypes(*call.def, call.attrs, call.operands, mesh));
  EXPECT_EQ(ToString(results[0], mesh), "f32[4@dp, 8@tp]");
  auto epilogue = EpilogueOf(*BodyOf(call.attrs), call.operands);
  ASSERT_TRUE(epilogue.has_value());
  EXPECT_EQ(ToString(*epilogue), "residual+bias");
}

}  // namespace
}  // namespace asyra
