// NaN, infinities and large integers: the interpreter and the kernels of the
// cpu give what NumPy gives, in whichever order the operands come.
#include <cmath>

#include "executor/cpu/run_on_cpu.h"
#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "ir/parser.h"
#include "ir/support/check.h"
#include "tests/ir/op_case.h"
#include "tests/support/untyped.h"

namespace asyra {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

void ExpectResult(const std::string& text, const std::vector<Tensor>& inputs,
                  const Tensor& want) {
  Program program = ASYRA_VALUE(ParseUntyped(text));
  Tensor interpreted = ASYRA_VALUE(Interpret(program, inputs))[0];
  EXPECT_TRUE(Near(interpreted, want, 0)) << text;
  RunResult run = ASYRA_VALUE(RunOnCpu(program, inputs));
  EXPECT_TRUE(Near(run.outputs[0], want, 0)) << text;
  EXPECT_TRUE(run.fallback_ops.empty()) << text;
}

TEST(NotANumber, StaysInMaxAndMin) {
  for (DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
    auto values = [&](const std::vector<double>& list) {
      return Tensor::FromDoubles(dtype, {static_cast<int64_t>(list.size())},
                                 list);
    };
    Tensor a = values({kNan, 1, kNan, -kInf, 2, kInf});
    Tensor b = values({1, kNan, kNan, kNan, kInf, -kInf});
    std::string in(ToString(dtype));
    for (auto [op, result] : {std::pair("max", std::vector{kInf, kInf}),
                              {"min", std::vector{2.0, -kInf}}}) {
      std::string text =
          "in a " + in + "[6]\nin b " + in + "[6]\nc = " + op + "(a, b)\nout c";
      ExpectResult(text, {a, b},
                   values({kNan, kNan, kNan, kNan, result[0], result[1]}));
    }
  }
}

TEST(NotANumber, StaysInReductions) {
  for (const char* op : {"reduce_max", "reduce_min"}) {
    for (int64_t place = 0; place < 3; ++place) {
      Tensor x = Tensor::FromDoubles(DType::kF32, {3}, {-kInf, 1, kInf});
      std::vector<double> values = x.ToDoubles();
      values[place] = kNan;
      ExpectResult(std::string("in x f32[3]\ny = ") + op +
                       "(x) {dims=[0], keep=false}\nout y",
                   {Tensor::FromDoubles(DType::kF32, {3}, values)},
                   Tensor::FromDoubles(DType::kF32, {}, {kNan}));
    }
  }
}

TEST(NotANumber, StaysWhereItIsScattered) {
  Tensor index = Tensor::FromInts(DType::kI64, {2}, {0, 1});
  for (const char* reduction : {"max", "min"}) {
    ExpectResult(std::string("in x f32[2]\nin i i64[2]\nin u f32[2]\n"
                             "y = scatter_elements(x, i, u) {dim=0, "
                             "reduction=\"") +
                     reduction + "\"}\nout y",
                 {Tensor::FromDoubles(DType::kF32, {2}, {kNan, 1}), index,
                  Tensor::FromDoubles(DType::kF32, {2}, {1, kNan})},
                 Tensor::FromDoubles(DType::kF32, {2}, {kNan, kNan}));
  }
}

TEST(NotANumber, SumsOfIntegersAreExact) {
  constexpr int64_t kLarge = (int64_t{1} << 53) + 1;
  ExpectResult("in x i64[3]\ny = reduce_sum(x) {dims=[0], keep=false}\nout y",
               {Tensor::FromInts(DType::kI64, {3}, {kLarge, 2, -4})},
               Tensor::FromInts(DType::kI64, {}, {kLarge - 2}));
}

// What is hidden from attention, and what is seen and is NaN.
TEST(NotANumber, OfAttention) {
  Tensor q = Tensor::FromDoubles(DType::kF32, {1, 2, 1, 1}, {1, kNan});
  Tensor k = Tensor::FromDoubles(DType::kF32, {1, 2, 1, 1}, {1, 1});
  Tensor v = Tensor::FromDoubles(DType::kF32, {1, 2, 1, 1}, {2, 4});
  Tensor mask(DType::kBool, {1, 1, 2, 2});
  auto result = [](double a, double b) {
    return Tensor::FromDoubles(DType::kF32, {1, 2, 1, 1}, {a, b});
  };
  auto text = [](const std::string& attrs) {
    return "in q f32[1,2,1,1]\nin k f32[1,2,1,1]\nin v f32[1,2,1,1]\n"
           "in m bool[1,1,2,2]\ny = attention(q, k, v, m) {scale=1.0" +
           attrs + "}\nout y";
  };
  ExpectResult(text(""), {q, k, v, mask}, result(0, 0));
  ExpectResult(text(", empty_is_nan=true"), {q, k, v, mask},
               result(kNan, kNan));
  ExpectResult(text(", hidden=-1e9"), {q, k, v, mask}, result(3, 3));
  mask = Tensor::FromInts(DType::kBool, {1, 1, 2, 2}, {1, 0, 1, 0});
  ExpectResult(text(""), {q, k, v, mask}, result(2, kNan));
}

TEST(NotANumber, OfTheScaleLeavesAdamWAsItWas) {
  Program program = ASYRA_VALUE(ParseProgram(R"(asyra 1 global
program @p(%p: f32[2], %g: f32[2], %rate: f32[], %step: i64[], %scale: f32[])
    -> (f32[2], f32[2], f32[2]) {
  %x, %y, %z = adamw(%p, %g, %p, %p, %rate, %step, %scale) {weight_decay=0.5}
      : f32[2], f32[2], f32[2]
  return %x, %y, %z
}
)"));
  Tensor values = Tensor::FromDoubles(DType::kF32, {2}, {3, -4});
  for (double scale : {kNan, kInf, -kInf}) {
    std::vector<Tensor> inputs = {
        values, Tensor::FromDoubles(DType::kF32, {2}, {kNan, 1}),
        Tensor::FromDoubles(DType::kF32, {}, {0.5}),
        Tensor::FromInts(DType::kI64, {}, {1}),
        Tensor::FromDoubles(DType::kF32, {}, {scale})};
    std::vector<Tensor> interpreted = ASYRA_VALUE(Interpret(program, inputs));
    RunResult run = ASYRA_VALUE(RunOnCpu(program, inputs));
    EXPECT_TRUE(run.fallback_ops.empty());
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(SameBytes(interpreted[i], values)) << i << ": " << scale;
      EXPECT_TRUE(SameBytes(run.outputs[i], values)) << i << ": " << scale;
    }
  }
}

}  // namespace
}  // namespace asyra
