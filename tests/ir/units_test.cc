#include "ir/support/units.h"

#include "gtest/gtest.h"

namespace asyra {
namespace {

TEST(Units, TimesAreInTheUnitThatSuitsThem) {
  EXPECT_EQ(TimeText(0), "0.0 us");
  EXPECT_EQ(TimeText(12.34), "12.3 us");
  EXPECT_EQ(TimeText(999.94), "999.9 us");
  EXPECT_EQ(TimeText(999.96), "1.00 ms");
  EXPECT_EQ(TimeText(7526.6), "7.53 ms");
  EXPECT_EQ(TimeText(9994.9), "9.99 ms");
  EXPECT_EQ(TimeText(9996), "10.0 ms");
  EXPECT_EQ(TimeText(23415.4), "23.4 ms");
  EXPECT_EQ(TimeText(999.9e3), "999.9 ms");
  EXPECT_EQ(TimeText(1349.2e3), "1.35 s");
  EXPECT_EQ(TimeText(34.2e6), "34.2 s");
  EXPECT_EQ(TimeText(34.2e9), "34200.0 s");
  EXPECT_EQ(TimeText(-34.2e6), "-34.2 s");
  EXPECT_EQ(TimeChangeText(12.34), "+12.3 us");
  EXPECT_EQ(TimeChangeText(-23415.4), "-23.4 ms");
}

TEST(Units, TimesOfAColumnHaveOneUnit) {
  EXPECT_EQ(TimeColumn(433500).Text(9439.7), "9.4 ms");
  EXPECT_EQ(TimeColumn(13310).Text(943.9), "0.94 ms");
  EXPECT_EQ(TimeColumn(172.4).Text(3.26), "3.3 us");
  EXPECT_EQ(TimeColumn(0).Text(0), "0.0 us");
}

TEST(Units, BytesOfAColumnHaveOneUnit) {
  int64_t gib = int64_t{1} << 30;
  EXPECT_EQ(BytesColumn(7 * gib).Text(gib - gib / 50), "0.98 GiB");
  EXPECT_EQ(BytesColumn(141 * gib).Text(gib), "1.0 GiB");
  EXPECT_EQ(BytesColumn(1000).Text(12), "12 bytes");
}

TEST(Units, BytesAreInPowersOf1024) {
  EXPECT_EQ(BytesText(int64_t{0}), "0 bytes");
  EXPECT_EQ(BytesText(int64_t{107}), "107 bytes");
  EXPECT_EQ(BytesText(int64_t{1023}), "1023 bytes");
  EXPECT_EQ(BytesText(int64_t{1024}), "1.00 KiB");
  EXPECT_EQ(BytesText(int64_t{-1536}), "-1.50 KiB");
  EXPECT_EQ(BytesText(int64_t{345} << 20), "345.0 MiB");
  EXPECT_EQ(BytesText(int64_t{141} << 30), "141.0 GiB");
  EXPECT_EQ(BytesText(int64_t{5} << 40), "5120.0 GiB");
  EXPECT_EQ(BytesText(12.4), "12 bytes");
  EXPECT_EQ(BytesText(1.5 * (1 << 30)), "1.50 GiB");
}

TEST(Units, CountsHavePrefixes) {
  EXPECT_EQ(CountText(12), "12 ");
  EXPECT_EQ(CountText(157e3), "157 k ");
  EXPECT_EQ(CountText(8.03e9), "8.03 G ");
}

TEST(EnergyText, TakesTheNextUnitFromAThousandOn) {
  EXPECT_EQ(EnergyText(2e-6), "2.00 uJ");
  EXPECT_EQ(EnergyText(0.0123), "12.3 mJ");
  EXPECT_EQ(EnergyText(0.9994), "999 mJ");
  EXPECT_EQ(EnergyText(0.9996), "1.00 J");
  EXPECT_EQ(EnergyText(2500), "2500 J");
}

}  // namespace
}  // namespace asyra
