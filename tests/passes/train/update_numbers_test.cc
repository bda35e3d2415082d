#include "passes/train/update_numbers.h"

#include <cmath>

#include "gtest/gtest.h"

namespace asyra {
namespace {

TEST(UpdateNumbers, AreFiniteAndInTheirRange) {
  for (const UpdateNumber& number : UpdateNumbers()) {
    SCOPED_TRACE(number.name);
    EXPECT_EQ(&UpdateNumberOf(number.name), &number);
    EXPECT_TRUE(number.IsIn(0));
    EXPECT_TRUE(number.IsIn(0.5));
    for (double wrong : {-1.0, -1e-300, double{NAN}, HUGE_VAL, -HUGE_VAL}) {
      EXPECT_FALSE(number.IsIn(wrong)) << wrong;
    }
  }
  EXPECT_FALSE(UpdateNumberOf("beta1").IsIn(1));
  EXPECT_TRUE(UpdateNumberOf("clip").IsIn(1e30));
  EXPECT_EQ(UpdateNumberOf("momentum").range(), "at least 0 and below 1");
  EXPECT_EQ(UpdateNumberOf("eps").range(), "finite and at least 0");
}

}  // namespace
}  // namespace asyra
