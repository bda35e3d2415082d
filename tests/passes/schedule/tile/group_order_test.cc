#include "passes/schedule/tile/group_order.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "absl/algorithm/container.h"
#include "gmock/gmock.h"
#include "ir/parser.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "tests/executor/runnable.h"
#include "tests/ir/op_case.h"

namespace asyra {
namespace {

using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::Optional;

// Ops 0 and 1 read inputs, 2 reads 0, 3 reads 1, 4 waits for 2.
Program Chains() {
  return ASYRA_VALUE(ParseProgram(R"(asyra 1 scheduled

program @f(%x: f32[4], %y: f32[4]) -> (f32[4], f32[4], f32[4]) {
  %a = exp(%x) on c : f32[4]
  %b = exp(%y) on c : f32[4]
  %c = neg(%a) on c : f32[4]
  %d = neg(%b) on c : f32[4]
  %e = neg(%y) on other after(%c) : f32[4]
  return %c, %d, %e
}
)"));
}

OpGroups Grouped(const Program& program,
                 const std::vector<std::vector<int>>& groups) {
  OpGroups grouped{.ops = groups};
  grouped.group_of.assign(program.ops.size(), -1);
  for (size_t g = 0; g < groups.size(); ++g) {
    for (int op : groups[g]) grouped.group_of[op] = static_cast<int>(g);
  }
  return grouped;
}

std::optional<std::vector<int>> Order(
    const Program& program, const std::vector<std::vector<int>>& groups,
    const std::vector<int>& places) {
  return GroupOrder(program, DefUse(program), Grouped(program, groups), places);
}

TEST(GroupOrder, KeepsToThePlaces) {
  std::vector<std::vector<int>> apart = {{0}, {1}, {2}, {3}, {4}};
  EXPECT_THAT(Order(Chains(), apart, {0, 1, 2, 3, 4}),
              Optional(ElementsAre(0, 1, 2, 3, 4)));
  EXPECT_THAT(Order(Chains(), apart, {3, 0, 4, 1, 2}),
              Optional(ElementsAre(1, 3, 0, 2, 4)));
}

TEST(GroupOrder, AGroupComesAfterWhatAnyOfItsOpsNeeds) {
  EXPECT_THAT(Order(Chains(), {{2, 3}, {0}, {1}, {4}}, {0, 1, 2, 3}),
              Optional(ElementsAre(1, 2, 0, 3)));
  // What an op waits for counts as what it reads does.
  EXPECT_THAT(Order(Chains(), {{0}, {2}, {1, 4}, {3}}, {1, 3, 0, 2}),
              Optional(ElementsAre(0, 1, 2, 3)));
}

TEST(GroupOrder, OfEqualPlacesTheFirstGroupGoesFirst) {
  EXPECT_THAT(Order(Chains(), {{1}, {0}, {2}, {3}, {4}}, {0, 0, 0, 0, 0}),
              Optional(ElementsAre(0, 1, 2, 3, 4)));
}

TEST(GroupOrder, GroupsThatWaitForEachOtherHaveNone) {
  EXPECT_THAT(Order(Chains(), {{0, 3}, {1, 2}, {4}}, {0, 1, 2}),
              Eq(std::nullopt));
  EXPECT_THAT(Order(Chains(), {{0, 2}, {1}, {3}, {4}}, {0, 1, 2, 3}),
              Eq(std::nullopt));
}

// The places of a random order of random groups: at each step the first that
// needs nothing that is still to come.
TEST(GroupOrder, IsWhatTakingTheFirstOneAgainAndAgainGives) {
  std::mt19937_64 random(Seed());
  for (int seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE(fmt::format("ASYRA_SEED={}, program {}", Seed(), seed));
    Program program = RunnableProgram(seed);
    DefUse uses(program);
    std::vector<std::vector<int>> groups;
    for (size_t i = 0; i < program.ops.size(); ++i) {
      bool joins = !groups.empty() && random() % 4 == 0;
      if (!joins) groups.emplace_back();
      groups[joins ? random() % groups.size() : groups.size() - 1].push_back(
          static_cast<int>(i));
    }
    std::vector<int> places(groups.size());
    std::iota(places.begin(), places.end(), 0);
    std::shuffle(places.begin(), places.end(), random);
    OpGroups grouped = Grouped(program, groups);
    std::vector<bool> done(groups.size(), false);
    auto is_ready = [&](size_t group) {
      auto there = [&](ValueId value) {
        int def = uses.def[value];
        return def < 0 || done[grouped.group_of[def]];
      };
      return absl::c_all_of(groups[group], [&](int op) {
        return absl::c_all_of(program.ops[op].operands, there) &&
               absl::c_all_of(program.ops[op].after, there);
      });
    };
    std::vector<int> want;
    for (;;) {
      int next = -1;
      for (size_t g = 0; g < groups.size(); ++g) {
        if (!done[g] && is_ready(g) && (next < 0 || places[g] < places[next])) {
          next = static_cast<int>(g);
        }
      }
      if (next < 0) break;
      want.push_back(next);
      done[next] = true;
    }
    auto order = GroupOrder(program, uses, grouped, places);
    ASSERT_EQ(order.has_value(), want.size() == groups.size());
    if (!order.has_value()) continue;
    EXPECT_EQ(*order, want);
  }
}

}  // namespace
}  // namespace asyra
