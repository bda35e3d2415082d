#include "passes/train/differentiate.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "passes/pass_manager.h"

namespace asyra {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// `body` computes %loss of %x, %w and %v.
Program Model(std::string_view body, std::string_view dtype = "f64") {
  std::string text(R"(asyra 1 global

program @f(%x: T[2, 3], %w: T[3, 3] param, %v: T[3] param) -> (T[], T[]) {
BODY  %count = constant() {value=T[](1)} : T[]
  return %loss as "loss_sum", %count as "loss_count"
}
)");
  text.replace(text.find("BODY"), 4, body);
  for (size_t at; (at = text.find("T[")) != std::string::npos;) {
    text.replace(at, 1, dtype);
  }
  return ASYRA_VALUE(ParseProgram(text));
}

struct Outcome {
  std::string text;  // of the program, or the error
  std::vector<std::string> remarks;
};

Outcome Differentiated(Program program) {
  PassContext context;
  absl::Status status = RunPasses(program, "differentiate", context);
  return {status.ok() ? ToString(program) : std::string(MessageOf(status)),
          context.remarks};
}

TEST(Differentiate, SaysWhichParamsNoGradientReaches) {
  Outcome outcome = Differentiated(Model(R"(
  %h = matmul(%x, %w) : T[2, 3]
  %loss = reduce_sum(%h) {dims=[0, 1], keep=false} : T[]
)"));
  EXPECT_THAT(outcome.text, HasSubstr("\"loss_count\", %w.grad\n"));
  ASSERT_EQ(outcome.remarks.size(), 1u);
  EXPECT_THAT(outcome.remarks[0],
              HasSubstr("no gradient reaches v: it stays as it is"));
}

TEST(Differentiate, AnOpWithoutDerivativeIsFineBesideTheLoss) {
  // %u depends on params, but the loss does not depend on it.
  Outcome outcome = Differentiated(Model(R"(
  %zero = constant() {value=T[](0)} : T[]
  %u = sgd(%w, %w, %zero) : T[3, 3]
  %h = matmul(%x, %w) : T[2, 3]
  %loss = reduce_sum(%h) {dims=[0, 1], keep=false} : T[]
)"));
  EXPECT_THAT(outcome.text, HasSubstr("%w.grad"));
  EXPECT_THAT(outcome.text, Not(HasSubstr("sgd")));
  // %u is data alone: the loss depends on it, but it leads to no param.
  outcome = Differentiated(Model(R"(
  %rate = constant() {value=T[](0)} : T[]
  %u = sgd(%x, %x, %rate) : T[2, 3]
  %h = matmul(%u, %w) : T[2, 3]
  %loss = reduce_sum(%h) {dims=[0, 1], keep=false} : T[]
)"));
  EXPECT_THAT(outcome.text, HasSubstr("%w.grad"));
}

TEST(Differentiate, AnOpWithoutDerivativeOnTheWayIsAnError) {
  EXPECT_THAT(Differentiated(Model(R"(
  %rate = constant() {value=T[](0)} : T[]
  %scaled = mul(%w, %v) : T[3, 3]
  %h = matmul(%x, %scaled) : T[2, 3]
  %u = sgd(%h, %x, %rate) : T[2, 3]
  %loss = reduce_sum(%u) {dims=[0, 1], keep=false} : T[]
)"))
                  .text,
              HasSubstr("op sgd of %u has no derivative; it is between the "
                        "loss and w, v"));
}

TEST(Differentiate, StepFunctionsCutOffWithoutAnError) {
  // The derivative of floor is 0 wherever it has one.
  EXPECT_THAT(Differentiated(Model(R"(
  %h = matmul(%x, %w) : T[2, 3]
  %f = floor(%h) : T[2, 3]
  %y = mul(%f, %v) : T[2, 3]
  %loss = reduce_sum(%y) {dims=[0, 1], keep=false} : T[]
)"))
                  .text,
              HasSubstr("%v.grad\n"));
}

TEST(Differentiate, ALossWithoutParamsIsAnError) {
  EXPECT_THAT(Differentiated(Model(R"(
  %loss = reduce_sum(%x) {dims=[0, 1], keep=false} : T[]
)"))
                  .text,
              HasSubstr("the loss %loss depends on no parameter"));
}

TEST(Differentiate, OnlyF16IsScaled) {
  constexpr std::string_view kBody = R"(
  %h = matmul(%x, %w) : T[2, 3]
  %loss = reduce_sum(%h) {dims=[0, 1], keep=false} : T[]
)";
  EXPECT_THAT(Differentiated(Model(kBody, "f16")).text,
              HasSubstr("%loss_scale: f32[])"));
  for (const char* dtype : {"bf16", "f32", "f64"}) {
    EXPECT_THAT(Differentiated(Model(kBody, dtype)).text,
                Not(HasSubstr("loss_scale")));
  }
}

TEST(Differentiate, NamesThatAreTakenAreLeftAlone) {
  // A model may have a value of the gradient's name.
  Program program = ASYRA_VALUE(ParseProgram(R"(asyra 1 global

program @f(%w: f64[3] param) -> (f64[], f64[]) {
  %w.grad = mul(%w, %w) : f64[3]
  %loss = reduce_sum(%w.grad) {dims=[0], keep=false} : f64[]
  %count = constant() {value=f64[](1)} : f64[]
  return %loss as "loss_sum", %count as "loss_count"
}
)"));
  EXPECT_THAT(Differentiated(program).text, HasSubstr(" as \"w.grad\"\n"));
}

}  // namespace
}  // namespace asyra
