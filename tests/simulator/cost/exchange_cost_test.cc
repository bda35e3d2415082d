// Prices of exchanges: of rings, of all with all, and over two levels.
#include "simulator/cost/exchange_cost.h"

#include "tests/simulator/test_support.h"

namespace asyra {
namespace {

constexpr double kBytes = 1e6;  // 1000 us over a link, 2000 over the network

double UsOf(const ExchangeTraffic& traffic, int ranks) {
  CostModel costs(TestMachine(), ASYRA_VALUE(Mesh::Create({{"x", ranks}})));
  return costs.ExchangeCost(traffic, {0}, 0).time_us;
}

// To the same seat of the other host, and to so many neighbours in this one.
ExchangeTraffic OverTwoHosts(int neighbours) {
  constexpr int kSeats = 4;
  ExchangeTraffic traffic(2 * kSeats);
  for (int r = 0; r < 2 * kSeats; ++r) {
    traffic.Add(r, (r + kSeats) % (2 * kSeats), kBytes);
    for (int k = 1; k <= neighbours; ++k) {
      traffic.Add(r, r / kSeats * kSeats + (r + k) % kSeats, kBytes);
    }
  }
  return traffic;
}

TEST(ExchangeCost, TellsPatternsApart) {
  ExchangeTraffic ring(4), all(4), some(4);
  for (int r = 0; r < 4; ++r) {
    ring.Add(r, (r + 3) % 4, kBytes);
    for (int k = 1; k < 4; ++k) all.Add(r, (r + k) % 4, kBytes);
    for (int k = 1; k < 3; ++k) some.Add(r, (r + k) % 4, kBytes);
  }
  EXPECT_EQ(ring.Shift(), 3);
  EXPECT_FALSE(ring.GoesToAll());
  EXPECT_EQ(all.Shift(), 0);
  EXPECT_TRUE(all.GoesToAll());
  EXPECT_EQ(some.Shift(), 0);
  EXPECT_FALSE(some.GoesToAll());
  EXPECT_EQ(ring.Busiest(), kBytes);
  EXPECT_EQ(all.Busiest(), 3 * kBytes);
}

TEST(ExchangeCost, BusiestIsWhatARankSendsOrReceives) {
  ExchangeTraffic traffic(4);
  for (int r = 1; r < 4; ++r) traffic.Add(r, 0, kBytes);
  EXPECT_EQ(traffic.Busiest(), 3 * kBytes);
  // Two on each host: two of three come from the other one.
  EXPECT_EQ(traffic.BusiestInside({0, 0, 1, 1}), kBytes);
  EXPECT_EQ(traffic.BusiestOfHosts({0, 0, 1, 1}), 2 * kBytes);
}

// 10 us of latency, 100 of the network.
TEST(ExchangeCost, InsideAndBetweenHostsAtTheSameTime) {
  EXPECT_DOUBLE_EQ(UsOf(OverTwoHosts(0), 8), 2110);  // a shift by four
  EXPECT_DOUBLE_EQ(UsOf(OverTwoHosts(1), 8), 2110);
  EXPECT_DOUBLE_EQ(UsOf(OverTwoHosts(2), 8), 2110);
  EXPECT_DOUBLE_EQ(UsOf(OverTwoHosts(3), 8), 3010);
}

// A ring crosses from host to host once: of four adapters one carries it.
TEST(ExchangeCost, AMessageTakesOneAdapter) {
  ExchangeTraffic ring(8);
  for (int r = 0; r < 8; ++r) ring.Add(r, (r + 7) % 8, kBytes);
  EXPECT_DOUBLE_EQ(UsOf(ring, 8), 2110);
}

}  // namespace
}  // namespace asyra
