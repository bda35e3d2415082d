#include "simulator/cost/packing.h"

#include "gtest/gtest.h"

namespace asyra {
namespace {

// What two devices do with `runs` runs of f32 in each chunk.
Packing Of(std::string_view op, int64_t runs, int64_t run_elements) {
  Type chunk(DType::kF32, {runs, run_elements});
  Type whole(DType::kF32, {runs, 2 * run_elements});
  bool gathers = op == "all_gather";
  return PackingOf(*FindOp(op), {{"dim", int64_t{1}}}, gathers ? chunk : whole,
                   gathers ? whole : chunk);
}

TEST(Packing, FewOrLongRunsGoInACallEach) {
  constexpr int64_t kLong = 1 << 16;  // 256 KiB
  for (std::string_view op : {"all_gather", "reduce_scatter"}) {
    auto packs = [&](int64_t runs, int64_t elements) {
      Packing packing = Of(op, runs, elements);
      EXPECT_FALSE(op == "all_gather" ? packing.before : packing.after);
      return packing.before || packing.after;
    };
    EXPECT_FALSE(packs(8, 1)) << op;
    EXPECT_TRUE(packs(9, kLong - 1)) << op;
    EXPECT_FALSE(packs(9, kLong)) << op;
    EXPECT_FALSE(packs(64, kLong)) << op;
    EXPECT_TRUE(packs(65, kLong)) << op;
  }
}

TEST(Packing, AllToAllPacksWhatIsCutBehindOthers) {
  Type tokens(DType::kF32, {1, 4, 8}), heads(DType::kF32, {1, 8, 4});
  auto packing = [](int64_t from, int64_t to, const Type& a, const Type& b) {
    return PackingOf(*FindOp("all_to_all"), {{"from", from}, {"to", to}}, a, b);
  };
  Packing to_heads = packing(1, 2, tokens, heads);
  EXPECT_TRUE(to_heads.before);
  EXPECT_FALSE(to_heads.after);
  Packing to_tokens = packing(-1, -2, heads, tokens);
  EXPECT_FALSE(to_tokens.before);
  EXPECT_TRUE(to_tokens.after);
}

TEST(Packing, SumsOfWholesAndWhatIsNoCollectiveHaveNone) {
  Type type(DType::kF32, {100, 100});
  for (std::string_view op : {"all_reduce", "neg"}) {
    Packing packing = PackingOf(*FindOp(op), {}, type, type);
    EXPECT_FALSE(packing.before || packing.after) << op;
  }
}

}  // namespace
}  // namespace asyra
