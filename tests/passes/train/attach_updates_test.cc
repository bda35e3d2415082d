#include "passes/train/attach_updates.h"

#include <cmath>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/parser.h"
#include "passes/pass_manager.h"
#include "tests/passes/train/steps.h"

namespace asyra {
namespace {

using Doubles = std::vector<double>;

Tensor F64(const Shape& shape, const Doubles& elements) {
  return Tensor::FromDoubles(DType::kF64, shape, elements);
}
Tensor Number(double number) { return F64({}, {number}); }

// Gradients are the params times the number %a, of a sum over 4 terms.
Program Compiled(const std::string& options) {
  Program program = ASYRA_VALUE(ParseProgram(R"(asyra 1 global

program @f(%a: f64[], %w: f64[2, 2] param, %bias: f64[2] param)
    -> (f64[], f64[], f64[2, 2], f64[2]) {
  %count = constant() {value=f64[](4)} : f64[]
  %w.grad = mul(%w, %a) : f64[2, 2]
  %bias.grad = mul(%bias, %a) : f64[2]
  return %a as "loss_sum", %count as "loss_count", %w.grad, %bias.grad
}
)"));
  PassContext context;
  ASYRA_CHECK_OK(RunPasses(
      program, fmt::format("attach_updates{{{}}}", options), context));
  return program;
}

const Doubles kW = {1, -2, 0.5, 3}, kBias = {-1, 0.25};
const Doubles kScales = {2, -0.5, 8}, kRates = {0.1, 0.05, 0.2};
constexpr double kCount = 4;

Steps Begin(const std::string& options) {
  return Steps(Compiled(options),
               {{"w", F64({2, 2}, kW)}, {"bias", F64({2}, kBias)}});
}

// What one param has, as a reference that is written by hand updates it.
struct Param {
  Doubles value, m, v, velocity;
  explicit Param(const Doubles& begin)
      : value(begin),
        m(begin.size()),
        v(begin.size()),
        velocity(begin.size()) {}
};

using Update = void (*)(Param& param, size_t i, double gradient, double rate,
                        double decay, int step);

void AdamW(Param& param, size_t i, double gradient, double rate, double decay,
           int step) {
  double &m = param.m[i], &v = param.v[i];
  m = 0.75 * m + 0.25 * gradient;
  v = 0.875 * v + 0.125 * gradient * gradient;
  double change = m / (1 - std::pow(0.75, step)) /
                  (std::sqrt(v / (1 - std::pow(0.875, step))) + 0.01);
  param.value[i] -= rate * (change + decay * param.value[i]);
}

void Sgd(Param& param, size_t i, double gradient, double rate, double decay,
         int) {
  double& velocity = param.velocity[i];
  velocity = 0.75 * velocity + gradient + decay * param.value[i];
  param.value[i] -= rate * velocity;
}

struct Reference {
  Param w{kW}, bias{kBias};
  double norm = 0;

  void Step(int step, double clip, Update update) {
    double factor = kScales[step] / kCount, squares = 0;
    for (const Param* param : {&w, &bias}) {
      for (double x : param->value) squares += x * factor * x * factor;
    }
    norm = std::sqrt(squares);
    if (clip > 0 && norm > clip) factor *= clip / (norm + 1e-6);
    for (Param* param : {&w, &bias}) {
      double decay = param == &w ? 0.25 : 0;  // matrices alone
      for (size_t i = 0; i < param->value.size(); ++i) {
        update(*param, i, param->value[i] * factor, kRates[step], decay,
               step + 1);
      }
    }
  }
};

void ExpectNear(const Doubles& is, const Doubles& should) {
  ASSERT_EQ(is.size(), should.size());
  for (size_t i = 0; i < is.size(); ++i) {
    EXPECT_NEAR(is[i], should[i], 1e-12 * std::abs(should[i])) << i;
  }
}

// Three steps of the program and of the reference.
void ExpectSteps(const std::string& options, double clip, Update update) {
  Steps steps =
      Begin(fmt::format("{}, decay=0.25, clip={:.17g}", options, clip));
  Reference reference;
  for (int step = 0; step < 3; ++step) {
    SCOPED_TRACE(step);
    auto outputs = steps.Step(
        {{"a", Number(kScales[step])}, {"rate", Number(kRates[step])}});
    reference.Step(step, clip, update);
    ExpectNear(outputs["loss"].ToDoubles(), {kScales[step] / kCount});
    ExpectNear(outputs["norm"].ToDoubles(), {reference.norm});
    ExpectNear(outputs["loss_count"].ToDoubles(), {kCount});
    ExpectNear(steps.Value("w"), reference.w.value);
    ExpectNear(steps.Value("bias"), reference.bias.value);
    EXPECT_EQ(steps.Value("step"), Doubles{step + 1.0});
    if (update == Sgd) {
      ExpectNear(steps.Value("w.velocity"), reference.w.velocity);
    } else {
      ExpectNear(steps.Value("w.m"), reference.w.m);
      ExpectNear(steps.Value("bias.v"), reference.bias.v);
    }
  }
}

constexpr char kAdamW[] = "beta1=0.75, beta2=0.875, eps=0.01";
constexpr char kSgd[] = "optimizer=sgd, momentum=0.75";

TEST(AttachUpdates, AdamWIsThatOfTheReference) {
  ExpectSteps(kAdamW, 0, AdamW);
}
TEST(AttachUpdates, SgdIsThatOfTheReference) { ExpectSteps(kSgd, 0, Sgd); }

TEST(AttachUpdates, GradientsAreClippedWhereTheirNormIsAbove) {
  // Norms are about 2, 0.5 and 7: two of three are above 1.
  ExpectSteps(kAdamW, 1, AdamW);
  ExpectSteps(kSgd, 1, Sgd);
  // None is above 100: the same as without.
  ExpectSteps(kSgd, 100, Sgd);
}

TEST(AttachUpdates, AStepThatIsNotFiniteChangesNothing) {
  for (const char* options : {kAdamW, kSgd}) {
    for (const char* clip : {"clip=0", "clip=1"}) {
      for (double bad : {double{INFINITY}, double{NAN}}) {
        Steps steps = Begin(fmt::format("{}, {}, decay=0.25", options, clip));
        auto step = [&](double a) {
          return steps.Step({{"a", Number(a)}, {"rate", Number(0.1)}});
        };
        step(2);
        std::vector<std::string> names = {"w", "bias", "step"};
        names.push_back(options == kAdamW ? "w.v" : "w.velocity");
        std::map<std::string, Doubles> before;
        for (const std::string& name : names) before[name] = steps.Value(name);
        EXPECT_FALSE(std::isfinite(step(bad)["norm"].Get(0)));
        for (const std::string& name : names) {
          EXPECT_EQ(steps.Value(name), before[name]) << options << name << bad;
        }
        step(2);
        EXPECT_EQ(steps.Value("step"), Doubles{2});
        EXPECT_NE(steps.Value("w"), before["w"]);
      }
    }
  }
}

// Without clipping the loss tells whether a step is finite.
TEST(AttachUpdates, WithoutClippingNoUpdateReadsOtherGradients) {
  for (const char* options : {kAdamW, kSgd}) {
    Program program = ASYRA_VALUE(ParseProgram(R"(asyra 1 global

program @f(%a: f64[], %b: f64[], %w: f64[2] param, %bias: f64[2] param)
    -> (f64[], f64[], f64[2], f64[2]) {
  %count = constant() {value=f64[](4)} : f64[]
  %w.grad = mul(%w, %a) : f64[2]
  %bias.grad = mul(%bias, %b) : f64[2]
  return %a as "loss_sum", %count as "loss_count", %w.grad, %bias.grad
}
)"));
    PassContext context;
    ASYRA_CHECK_OK(RunPasses(
        program, fmt::format("attach_updates{{clip=0, decay=0, {}}}", options),
        context));
    Steps steps(program, {{"w", F64({2}, {1, 2})}, {"bias", F64({2}, {3, 4})}});
    auto outputs = steps.Step(
        {{"a", Number(2)}, {"b", Number(NAN)}, {"rate", Number(0.1)}});
    EXPECT_TRUE(std::isnan(outputs["norm"].Get(0)));
    EXPECT_NE(steps.Value("w"), (Doubles{1, 2}));
    EXPECT_TRUE(std::isfinite(steps.Value("w")[0]));
    EXPECT_FALSE(std::isfinite(steps.Value("bias")[0]));
  }
}

TEST(AttachUpdates, WithoutTermsNothingChanges) {
  Program program = ASYRA_VALUE(ParseProgram(R"(asyra 1 global

program @f(%count: f64[], %w: f64[2] param) -> (f64[], f64[], f64[2]) {
  %w.grad = mul(%w, %count) : f64[2]
  %sum = mul(%count, %count) : f64[]
  return %sum as "loss_sum", %count as "loss_count", %w.grad
}
)"));
  PassContext context;
  ASYRA_CHECK_OK(RunPasses(program, "attach_updates{decay=0}", context));
  Steps steps(program, {{"w", F64({2}, {1, 2})}});
  auto outputs = steps.Step({{"count", Number(0)}, {"rate", Number(0.5)}});
  EXPECT_TRUE(std::isnan(outputs["norm"].Get(0)));
  EXPECT_EQ(steps.Value("w"), (Doubles{1, 2}));
}

// A gradient in f16 terms: the scale times %a.
Steps BeginScaled(const std::string& options) {
  Program program = ASYRA_VALUE(ParseProgram(R"(asyra 1 global

program @f(%a: f32[2], %w: f32[2] param, %loss_scale: f32[])
    -> (f32[], f32[], f32[2]) {
  %sum = constant() {value=f32[](3)} : f32[]
  %count = constant() {value=f32[](2)} : f32[]
  %w.grad = mul(%a, %loss_scale) : f32[2]
  return %sum as "loss_sum", %count as "loss_count", %w.grad
}
)"));
  PassContext context;
  ASYRA_CHECK_OK(RunPasses(
      program, fmt::format("attach_updates{{clip=0, decay=0, {}}}", options),
      context));
  return Steps(program, {{"w", Tensor::FromDoubles(DType::kF32, {2}, {1, 2})}});
}

std::map<std::string, Tensor> Scaled(double a) {
  return {{"a", Tensor::FromDoubles(DType::kF32, {2}, {a, 0})},
          {"rate", Tensor::FromDoubles(DType::kF32, {}, {0.5})}};
}

TEST(LossScale, IsDividedOutOfTheGradients) {
  Steps steps = BeginScaled("optimizer=sgd");
  auto outputs = steps.Step(Scaled(4));
  EXPECT_EQ(outputs["norm"].ToDoubles(), Doubles{2});
  EXPECT_EQ(outputs["loss"].ToDoubles(), Doubles{1.5});
  EXPECT_EQ(steps.Value("w"), (Doubles{0, 2}));
}

TEST(LossScale, AStepThatIsNotFiniteChangesNothingAndHalvesIt) {
  for (const char* options :
       {"optimizer=sgd, momentum=0.5", "optimizer=adamw"}) {
    for (double bad : {double{INFINITY}, double{NAN}}) {
      Steps steps = BeginScaled(options);
      steps.Step(Scaled(4));
      std::vector<std::string> names = {"w", "step"};
      for (const char* name : {"w.m", "w.v", "w.velocity"}) {
        bool adamw = std::string(options) == "optimizer=adamw";
        if (adamw == (std::string(name) != "w.velocity")) names.push_back(name);
      }
      std::map<std::string, Doubles> before;
      for (const std::string& name : names) before[name] = steps.Value(name);
      auto outputs = steps.Step(Scaled(bad));
      EXPECT_FALSE(std::isfinite(outputs["norm"].Get(0)));
      for (const std::string& name : names) {
        EXPECT_EQ(steps.Value(name), before[name]) << options << name;
      }
      EXPECT_EQ(steps.Value(kLossScaleLog2), Doubles{-1});
      // Twice in a row: a quarter.
      steps.Step(Scaled(bad));
      EXPECT_EQ(steps.Value(kLossScaleLog2), Doubles{-2});
    }
  }
}

// The scale of the next step, as a power of two above the first.
double Log2(const Steps& steps) {
  return std::floor(steps.Value(kLossScaleLog2)[0]);
}

TEST(LossScale, DoublesAfterManyFiniteSteps) {
  for (double begin : {0.0, -7.0, 3.0}) {
    Steps steps = BeginScaled("optimizer=sgd");
    steps.Set(kLossScaleLog2, Tensor::FromDoubles(DType::kF32, {}, {begin}));
    int count = 0;
    while (Log2(steps) == begin && count < 3000) {
      steps.Step(Scaled(0));
      ++count;
    }
    EXPECT_EQ(Log2(steps), begin + 1);
    // In f32 a 2000th is not exact.
    EXPECT_NEAR(count, 2000, 2) << begin;
  }
}

TEST(LossScale, CountingBeginsAgainWhereItHalves) {
  Steps steps = BeginScaled("optimizer=sgd");
  for (int i = 0; i < 10; ++i) steps.Step(Scaled(0));
  EXPECT_GT(steps.Value(kLossScaleLog2)[0], 0);
  steps.Step(Scaled(INFINITY));
  EXPECT_EQ(steps.Value(kLossScaleLog2), Doubles{-1});
}

}  // namespace
}  // namespace asyra
