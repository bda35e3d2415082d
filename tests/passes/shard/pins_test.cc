#include "passes/shard/pins.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "passes/pass_manager.h"

namespace asyra {
namespace {

constexpr std::string_view kMlp = R"(asyra 1 global
mesh (sp=2, tp=4)
program @mlp(%x: f32[4, 8, 16], %layer0.up: f32[16, 32] weight,
    %layer0.down: f32[32, 16] weight) -> (f32[4, 8, 16]) {
  %h = matmul(%x, %layer0.up) : f32[4, 8, 32]
  %a = gelu(%h) : f32[4, 8, 32]
  %d = matmul(%a, %layer0.down) : f32[4, 8, 16]
  %y = add(%x, %d) : f32[4, 8, 16]
  return %y
}
)";

std::string Partitioned(std::string_view pins) {
  Program program = ASYRA_VALUE(ParseProgram(kMlp));
  PassContext context;
  absl::Status status = RunPasses(
      program, fmt::format("plan_sharding{{pins=\"{}\"}}, partition", pins),
      context);
  return status.ok() ? ToString(program) : std::string(MessageOf(status));
}

TEST(Pins, ValuesAreAsTheyArePinned) {
  std::string text = Partitioned("x=1@sp;layer0\\\\..*=0@tp");
  EXPECT_THAT(text, testing::HasSubstr("%x: f32[4, 8@sp, 16],"));
  EXPECT_THAT(text, testing::HasSubstr("%layer0.up: f32[16@tp, 32] weight"));
  EXPECT_THAT(text, testing::HasSubstr("%layer0.down: f32[32@tp, 16] weight"));
  text = Partitioned("a=2@(tp,sp)");
  EXPECT_THAT(text, testing::HasSubstr("f32[4, 8, 32@(tp,sp)]"));
  // The last pin of a value holds.
  text = Partitioned("layer.*=1@tp; layer0.up=whole");
  EXPECT_THAT(text, testing::HasSubstr("%layer0.up: f32[16, 32] weight"));
  EXPECT_THAT(text, testing::HasSubstr("%layer0.down: f32[32, 16@tp] weight"));
}

TEST(Pins, SayWhatIsWrong) {
  Program program = ASYRA_VALUE(ParseProgram(kMlp));
  auto error = [&](std::string_view pins) {
    return std::string(MessageOf(ReadPins(pins, program).status()));
  };
  EXPECT_EQ(error("x"), "pin 'x': expected REGEX=DIM@AXIS");
  EXPECT_EQ(error("x=tp"),
            "pin 'x=tp': expected DIM@AXIS, as 1@tp, or whole; got 'tp'");
  EXPECT_EQ(error("x=0@ep"),
            "pin 'x=0@ep': the mesh (sp=2, tp=4) has no axis 'ep'");
  EXPECT_EQ(error("x=3@tp"), "pin 'x=3@tp': %x has rank 3, no dim 3");
  EXPECT_EQ(error("x=0@tp,1@tp"), "pin 'x=0@tp,1@tp': axis tp is given twice");
  EXPECT_EQ(error("x=0@(tp,sp)"),
            "pin 'x=0@(tp,sp)': dim 0 of %x has size 4, which (tp,sp) of size "
            "8 does not divide");
  EXPECT_EQ(error("z.*=0@tp"),
            "pin 'z.*=0@tp': no value has a name like 'z.*'");
  EXPECT_THAT(error("x(=0@tp"), testing::HasSubstr("no regular expression"));
}

}  // namespace
}  // namespace asyra
