#include "ir/streams.h"

#include <gtest/gtest.h>

#include "fmt/format.h"
#include "ir/parser.h"
#include "ir/support/check.h"

namespace asyra {
namespace {

// `side` has one op, `main` two and the wait.
Program OnStreams(std::string_view side, std::string_view main) {
  return ASYRA_VALUE(ParseProgram(fmt::format(R"(asyra 1 scheduled
mesh (sp=2)
program @f(%x: f32[8@sp]) -> (f32[8]) {{
  %a = exp(%x) on {0} : f32[8@sp]
  %b = exp(%a) on {1} after(%a) : f32[8@sp]
  %c = exp(%b) on {1} : f32[8@sp]
  %f = start all_gather(%c) {{dim=0, axes=sp}} on sp : future f32[8]
  %y = wait(%f) on {1} : f32[8]
  return %y
}}
)",
                                              side, main)));
}

TEST(Streams, ThoseOfComputationAreNamedSo) {
  Program program = OnStreams("compute2", "compute");
  ASSERT_EQ(program.streams.size(), 3);
  EXPECT_TRUE(IsComputeStream(program, 0));
  EXPECT_TRUE(IsComputeStream(program, 1));
  EXPECT_FALSE(IsComputeStream(program, 2));
  EXPECT_TRUE(IsComputeStream(program, kNoStream));
}

TEST(Streams, MostOpsRunOnTheMainOneWhateverTheOrder) {
  EXPECT_EQ(MainComputeStream(OnStreams("compute2", "compute")), 1);
  EXPECT_EQ(MainComputeStream(OnStreams("compute", "compute2")), 1);
  // Only a name makes a compute stream, where any has it.
  EXPECT_EQ(MainComputeStream(OnStreams("compute", "other")), 0);
  EXPECT_EQ(MainComputeStream(OnStreams("one", "other")), 1);
}

}  // namespace
}  // namespace asyra
