// Which fusions are a matmul added to a value, what may be partial of them,
// and which operand their result may overwrite.
#include "ir/accumulation.h"

#include "gmock/gmock.h"
#include "ir/builder.h"
#include "ir/parser.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "tests/ir/op_case.h"

namespace asyra {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Of `fusion(operands) {body}` with values %3 and on.
Program Fused(std::string_view operands, std::string_view body,
              const Mesh& mesh = {}) {
  ParsedCall call = ASYRA_VALUE(
      ParseCall(fmt::format("fusion({}) {{{}}}", operands, body), mesh));
  Builder builder(mesh, Stage::kLocal);
  std::vector<ValueId> values;
  for (const Type& type : call.operands) {
    values.push_back(builder.Input("x", type));
  }
  for (ValueId value :
       ASYRA_VALUE(builder.Add(call.def->name, values, call.attrs))) {
    builder.Output(value);
  }
  return std::move(builder).Finish();
}

// The operands that the first result may overwrite.
std::vector<size_t> Overwrites(const Program& program) {
  std::vector<size_t> operands;
  for (size_t k = 0; k < program.ops[0].operands.size(); ++k) {
    if (MayOverwrite(program, program.ops[0], k, 0)) operands.push_back(k);
  }
  return operands;
}

TEST(Accumulation, OverwritesWhatItAddsTo) {
  for (const char* types :
       {"f32[6,8], f32[6,8], f32[8,8]", "bf16[6,8], bf16[6,8], f32[8,8]",
        "f64[2,3,8], f64[2,3,8], f64[8,8]"}) {
    std::string_view sum(types + std::string_view(types).rfind(' ') + 1);
    for (const char* add : {"add(%3, %2)", "add(%2, %3)"}) {
      Program program =
          Fused(types, fmt::format("%3 = matmul_wgrad(%0, %1) : {0} "
                                   "%4 = {1} : {0} return %4",
                                   sum, add));
      EXPECT_EQ(AccumulatesOn(program, program.ops[0]), 2) << types;
      EXPECT_THAT(Overwrites(program), ElementsAre(2)) << types;
    }
  }
  Program first = Fused("bf16[8,8], bf16[8,8], bf16[8,8]",
                        "%3 = matmul(%1, %2) : bf16[8,8] "
                        "%4 = add(%0, %3) : bf16[8,8] return %4");
  EXPECT_EQ(AccumulatesOn(first, first.ops[0]), 0);
  EXPECT_THAT(Overwrites(first), ElementsAre(0));
}

TEST(Accumulation, IsNothingElse) {
  struct Case {
    std::string_view operands, body;
  };
  for (const Case& other : std::initializer_list<Case>{
           // What is added is a row, or larger than the matmul.
           {"f32[8,8], f32[8,8], f32[8]",
            "%3 = matmul(%0, %1) : f32[8,8] %4 = add(%3, %2) : f32[8,8] "
            "return %4"},
           {"f32[8,8], f32[8,8], f32[2,8,8]",
            "%3 = matmul(%0, %1) : f32[8,8] %4 = add(%3, %2) : f32[2,8,8] "
            "return %4"},
           // Another op, one more, or the matmul as a result too.
           {"f32[8,8], f32[8,8], f32[8,8]",
            "%3 = matmul(%0, %1) : f32[8,8] %4 = mul(%3, %2) : f32[8,8] "
            "return %4"},
           {"f32[8,8], f32[8,8], f32[8,8]",
            "%3 = matmul(%0, %1) : f32[8,8] %4 = add(%3, %2) : f32[8,8] "
            "%5 = relu(%4) : f32[8,8] return %5"},
           {"f32[8,8], f32[8,8], f32[8,8]",
            "%3 = matmul(%0, %1) : f32[8,8] %4 = add(%3, %2) : f32[8,8] "
            "return %4, %3"},
       }) {
    Program program = Fused(other.operands, other.body);
    EXPECT_EQ(AccumulatesOn(program, program.ops[0]), -1) << other.body;
    EXPECT_THAT(Overwrites(program), IsEmpty()) << other.body;
  }
}

// The sum of parts is the part of the sum only where what they are added to is
// in parts as well.
TEST(Accumulation, IsPartialAsWhatItIsAddedTo) {
  Mesh mesh = ASYRA_VALUE(Mesh::Create({{"dp", 2}, {"sp", 2}}));
  auto type_of = [&](std::string_view rows, std::string_view partial) {
    return ParseCall(
        fmt::format("fusion(bf16[{0},8], bf16[{0},6], f32[8,6] {1}) {{"
                    "%3 = matmul_wgrad(%0, %1) : f32[8,6] {1} "
                    "%4 = add(%3, %2) : f32[8,6] {1} return %4}}",
                    rows, partial),
        mesh);
  };
  for (auto [rows, partial] :
       {std::pair("12", ""), std::pair("12@dp", "partial(dp)"),
        std::pair("4@dp,4@sp", "partial(dp,sp)")}) {
    EXPECT_EQ(type_of(rows, partial).status(), absl::OkStatus()) << rows;
  }
  EXPECT_THAT(std::string(MessageOf(type_of("12@dp", "").status())),
              HasSubstr("operand 2 is partial over none, the matmul that is "
                        "added to it over dp"));
  EXPECT_THAT(std::string(MessageOf(type_of("12", "partial(sp)").status())),
              HasSubstr("operand 2 is partial over sp, the matmul that is "
                        "added to it over none"));
}

TEST(Accumulation, IsMadeOfAMatmulAndRead) {
  Program program = ASYRA_VALUE(ParseProgram(R"(asyra 1 local

program @f(%x: f32[8, 4], %z: f32[4, 4]) -> (f32[4, 4]) {
  %y = matmul_wgrad(%x, %x) {sm_margin=8} : f32[4, 4]
  return %y
}
)"));
  const Op& matmul = program.ops[0];
  EXPECT_TRUE(IsMatmul(matmul));
  Op sum = AddedTo(matmul, program.inputs[1].value);
  EXPECT_THAT(sum.operands,
              ElementsAre(program.inputs[0].value, program.inputs[1].value));
  EXPECT_EQ(SmMargin(sum.attrs), 8);
  sum.results = matmul.results;
  EXPECT_EQ(AccumulatesOn(program, sum), 1);
  std::optional<AddedMatmul> read = AddedMatmulOf(program, sum);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->onto, program.inputs[1].value);
  EXPECT_EQ(read->op.def, matmul.def);
  EXPECT_EQ(read->op.operands, matmul.operands);
  EXPECT_EQ(read->op.attrs, matmul.attrs);
}

// A chain of sums, whose second is an output: the third is written elsewhere.
TEST(Accumulation, IsInPlaceWhereNothingElseReadsIt) {
  Program program = ASYRA_VALUE(ParseProgram(R"(asyra 1 local

program @f(%x: f32[8, 4], %m: f32[4, 4] state) -> (f32[4, 4], f32[4, 4]) {
  %a = fusion(%x, %m) {
    %2 = matmul_wgrad(%0, %0) : f32[4, 4]
    %3 = add(%1, %2) : f32[4, 4]
    return %3
  } : f32[4, 4]
  %b = fusion(%x, %a) {
    %2 = matmul_wgrad(%0, %0) : f32[4, 4]
    %3 = add(%1, %2) : f32[4, 4]
    return %3
  } : f32[4, 4]
  %c = fusion(%x, %b) {
    %2 = matmul_wgrad(%0, %0) : f32[4, 4]
    %3 = add(%1, %2) : f32[4, 4]
    return %3
  } : f32[4, 4]
  return %b, %c
}
)"));
  std::vector<ValueId> under = SummedInPlace(program);
  ASSERT_EQ(under.size(), program.values.size());
  auto at = [&](const char* name) { return under[program.FindValue(name)]; };
  EXPECT_EQ(at("a"), kNoValue);  // a state stays
  EXPECT_EQ(at("b"), program.FindValue("a"));
  EXPECT_EQ(at("c"), kNoValue);
  program.outputs = {{program.FindValue("c"), program.FindValue("m"), "c"}};
  under = SummedInPlace(program);
  EXPECT_EQ(at("b"), program.FindValue("a"));
  EXPECT_EQ(at("c"), kNoValue);  // over the state
}

}  // namespace
}  // namespace asyra
