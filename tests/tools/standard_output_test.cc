// Colours on a terminal.
#include "tools/standard_output.h"

#include <unistd.h>

#include "gtest/gtest.h"

namespace asyra {
namespace {

TEST(StandardOutput, WhatShouldNotBeOverlookedHasAColour) {
  EXPECT_EQ(Coloured("takes 25.0 % MORE time than unscheduled\n"),
            "takes 25.0 % \x1b[1;31mMORE time\x1b[0m than unscheduled\n");
  EXPECT_EQ(Coloured("check passed: 1 output\n"),
            "\x1b[32mcheck passed\x1b[0m: 1 output\n");
  EXPECT_EQ(Coloured("1.83 of 140.0 GiB a device"),
            "1.83 of 140.0 GiB a device");
}

TEST(StandardOutput, FilesHaveNoColours) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  EXPECT_FALSE(ShowsColours(ends[1]));
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace asyra
