#include "tools/progress.h"

#include "gtest/gtest.h"

namespace asyra {
namespace {

TEST(Progress, ALineIsShorterThanTheTerminal) {
  EXPECT_EQ(ProgressLine("asyra-opt", 12.4, "building 2 tiles", 80),
            "asyra-opt: 12 s: building 2 tiles");
  EXPECT_EQ(ProgressLine("asyra-opt", 12.4, "building 2 tiles", 20),
            "asyra-opt: 12 s: bu");
  EXPECT_EQ(ProgressLine("asyra-opt", 12.4, "building 2 tiles", 0), "");
}

}  // namespace
}  // namespace asyra
