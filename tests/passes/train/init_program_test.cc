#include "passes/train/init_program.h"

#include <cmath>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "ir/parser.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "passes/pass_manager.h"

namespace asyra {
namespace {

using ::testing::Each;

const std::vector<std::string> kNames = {"table", "up", "twin", "norm", "bias"};

// The init program of all weights of a small model.
Program Init() {
  Program model = ASYRA_VALUE(ParseProgram(R"(asyra 1 global

program @f(%ids: i64[2, 4], %table: bf16[12, 8] weight padded from [10, 8],
    %up: f32[8, 8] weight, %twin: f32[8, 8] weight, %norm: f32[8] weight,
    %bias: f32[8] weight) -> (f32[2, 4, 8]) {
  %x = embedding(%table, %ids) : bf16[2, 4, 8]
  %wide = cast(%x) {to=f32} : f32[2, 4, 8]
  %n = rms_norm(%wide, %norm) {eps=0.5} : f32[2, 4, 8]
  %h = matmul(%n, %up) : f32[2, 4, 8]
  %g = matmul(%h, %twin) : f32[2, 4, 8]
  %y = add(%g, %bias) : f32[2, 4, 8]
  return %y
}
)"));
  return ASYRA_VALUE(InitProgram(model, kNames));
}

// Outputs by name, on the mesh with the pins.
std::map<std::string, Tensor> Values(int64_t seed, const Mesh& mesh = {},
                                     std::string_view pins = "") {
  Program program = Init();
  program.mesh = mesh;
  if (mesh.num_axes() > 0) {
    PassContext context;
    ASYRA_CHECK_OK(RunPasses(
        program,
        fmt::format("propagate_sharding{{seeds=\"{}\"}}, partition", pins),
        context));
  }
  std::vector<Tensor> outputs = ASYRA_VALUE(
      Interpret(program, {Tensor::FromInts(DType::kI64, {1}, {seed})}));
  std::map<std::string, Tensor> values;
  for (size_t i = 0; i < outputs.size(); ++i) {
    values[program.output_name(program.outputs[i])] = outputs[i];
  }
  return values;
}

TEST(InitProgram, ScalesAreOneBiasesZeroAndMatricesNormal) {
  auto values = Values(1);
  EXPECT_THAT(values["norm"].ToDoubles(), Each(1));
  EXPECT_THAT(values["bias"].ToDoubles(), Each(0));
  double sum = 0, squares = 0;
  std::vector<double> up = values["up"].ToDoubles();
  for (double x : up) {
    sum += x;
    squares += x * x;
    EXPECT_LT(std::abs(x), 0.02 * 6);
  }
  // 64 of them: within about four deviations of what is expected.
  EXPECT_LT(std::abs(sum / 64), 0.01);
  EXPECT_NEAR(std::sqrt(squares / 64), 0.02, 0.008);
}

TEST(InitProgram, PaddingIsZeroAndNarrowTypesAreF32) {
  Tensor table = Values(1)["table"];
  EXPECT_EQ(table.dtype(), DType::kF32);
  EXPECT_EQ(table.shape(), (Shape{12, 8}));
  EXPECT_THAT(table.Slice(0, 10, 2).ToDoubles(), Each(0));
  EXPECT_THAT(table.Slice(0, 0, 10).ToDoubles(), Each(::testing::Ne(0)));
}

TEST(InitProgram, OtherNamesAndSeedsHaveOtherValues) {
  auto values = Values(1), again = Values(1), other = Values(2);
  EXPECT_FALSE(SameBytes(values["up"], values["twin"]));
  EXPECT_TRUE(SameBytes(values["up"], again["up"]));
  EXPECT_FALSE(SameBytes(values["up"], other["up"]));
  EXPECT_TRUE(SameBytes(values["norm"], other["norm"]));
}

TEST(InitProgram, ValuesAreTheSameOnAnyMesh) {
  auto whole = Values(7);
  Mesh dp = ASYRA_VALUE(Mesh::Create({{"dp", 2}}));
  Mesh both = ASYRA_VALUE(Mesh::Create({{"dp", 2}, {"tp", 2}}));
  struct Case {
    Mesh mesh;
    std::string pins;
  } cases[] = {{dp, "table=whole;up=whole;norm=whole"},
               {dp, "table=0@dp;up=0@dp;twin=1@dp;norm=0@dp;bias=0@dp"},
               {both, "table=0@tp;up=1@tp;twin=0@tp;norm=whole"},
               {both, "table=1@(dp,tp);up=0@dp,1@tp;twin=1@(tp,dp);bias=0@tp"}};
  for (const Case& one : cases) {
    auto sharded = Values(7, one.mesh, one.pins);
    for (const std::string& name : kNames) {
      EXPECT_TRUE(SameBytes(sharded[name], whole[name]))
          << name << " " << one.pins;
    }
  }
}

TEST(InitProgram, OnlyMakesParameters) {
  Program model = ASYRA_VALUE(ParseProgram(R"(asyra 1 global

program @f(%x: f32[2, 4], %scale: f32[4] weight) -> (f32[2, 4]) {
  %s = floor(%scale) : f32[4]
  %y = mul(%x, %s) : f32[2, 4]
  return %y
}
)"));
  for (const char* name : {"scale", "x", "unknown"}) {
    EXPECT_EQ(MessageOf(InitProgram(model, {name}).status()),
              fmt::format("%{} is no parameter of the model", name));
  }
}

}  // namespace
}  // namespace asyra
