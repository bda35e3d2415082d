#include "tests/support/differences.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/parser.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "tests/support/fixture.h"

namespace asyra {
namespace {

using ::testing::HasSubstr;

// The loss is the sum of cubes; `gradient` should be three times the squares.
std::string ErrorOf(std::string_view gradient) {
  Program program = ASYRA_VALUE(ParseProgram(fmt::format(R"(asyra 1 global

program @f(%x: f64[3]) -> (f64[], f64[3]) {{
  %three = constant() {{value=f64[](3)}} : f64[]
  %square = mul(%x, %x) : f64[3]
  %cube = mul(%square, %x) : f64[3]
  %loss = reduce_sum(%cube) {{dims=[0], keep=false}} : f64[]
  %y = {} : f64[3]
  return %loss, %y as "x.grad"
}}
)",
                                                         gradient)));
  absl::Status status =
      GradientsAreDifferences(program, SmallIntegerInputs(program), 1e-6);
  return status.ok() ? "no error" : std::string(MessageOf(status));
}

TEST(GradientsAreDifferences, TellsRightFromWrong) {
  EXPECT_EQ(ErrorOf("mul(%square, %three)"), "no error");
  EXPECT_THAT(ErrorOf("mul(%x, %three)"), HasSubstr("the gradient of %x is"));
}

TEST(GradientsAreDifferences, NeedsAGradient) {
  Program program = ASYRA_VALUE(ParseProgram(R"(asyra 1 global

program @f(%x: f64[]) -> (f64[]) {
  return %x
}
)"));
  EXPECT_EQ(MessageOf(GradientsAreDifferences(
                program, SmallIntegerInputs(program), 1e-6)),
            "no output is the gradient of an input");
}

}  // namespace
}  // namespace asyra
