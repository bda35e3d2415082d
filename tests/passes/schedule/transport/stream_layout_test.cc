#include "passes/schedule/transport/stream_layout.h"

#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/parser.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "ir/verify/verifier.h"
#include "passes/schedule/order/order_search.h"
#include "tests/support/costs.h"

namespace asyra {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

// Over tp inside a host, over dp and sp between hosts.
constexpr std::string_view kLinks = R"(asyra 1 scheduled
mesh (dp=2, sp=2, tp=8)
program @links(%x: f32[16, 4096] , %y: f32[16, 4096@sp], %z: f32[16, 4096@tp],
    %v: f32[16@dp, 4096]) -> (f32[16, 4096], f32[16, 4096], f32[16, 4096]) {
  %a = start all_gather(%y) {axes=sp, dim=1} on sp : future f32[16, 4096]
  %b = start all_gather(%z) {axes=tp, dim=1} on tp : future f32[16, 4096]
  %c = start all_gather(%v) {axes=dp, dim=0} on dp : future f32[16, 4096]
  %d = wait(%a) on compute : f32[16, 4096]
  %e = wait(%b) on compute : f32[16, 4096]
  %f = wait(%c) on compute : f32[16, 4096]
  return %d, %e, %f
}
)";

TEST(StreamLayout, CollectivesThatShareLinksAreSerialised) {
  Program program = ASYRA_VALUE(ParseProgram(kLinks));
  ASYRA_CHECK_OK(Verify(program));
  Program laid = LayOut(program, {.serialised = true},
                        EstimateCosts(program, Costs(program, "a800x8")));
  ASYRA_CHECK_OK(Verify(laid));
  std::vector<std::string> streams;
  for (int op : {0, 1, 2}) {
    streams.push_back(laid.streams[laid.ops[op].stream]);
  }
  EXPECT_THAT(streams, ElementsAre("network", "link", "network"));
}

TEST(StreamLayout, LayoutsAreAllOthersAndHaveNames) {
  std::vector<StreamLayout> layouts = OtherLayouts();
  EXPECT_THAT(layouts, Not(Contains(StreamLayout())));
  std::set<std::string> names;
  for (const StreamLayout& layout : layouts) names.insert(ToString(layout));
  EXPECT_EQ(names.size(), layouts.size());
  EXPECT_EQ(ToString(StreamLayout()), "");
}

TEST(Merit, FitsThenTimeThenMemory) {
  Merit fast{.makespan_us = 1, .peak_bytes = 9, .fits = false};
  Merit slow{.makespan_us = 2, .peak_bytes = 8};
  EXPECT_TRUE(slow.BetterThan(fast));
  EXPECT_FALSE(fast.BetterThan(slow));
  fast.fits = true;
  EXPECT_TRUE(fast.BetterThan(slow));
  EXPECT_TRUE((Merit{2, 7, true}.BetterThan(slow)));
  EXPECT_FALSE(slow.BetterThan(slow));
  EXPECT_TRUE((Merit{5, 7, false}.BetterThan({2, 8, false})));
}

}  // namespace
}  // namespace asyra
