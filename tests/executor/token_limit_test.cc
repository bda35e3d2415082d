#include <limits>

#include "absl/strings/str_cat.h"
#include "executor/train/token_batches.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "ir/parser.h"
#include "ir/support/check.h"

namespace asyra {
namespace {

TEST(TokenLimit, IsOfTablesThatTokensLookUp) {
  // Positions look up a smaller table, and a gradient adds up rows.
  Program program = ASYRA_VALUE(ParseProgram(R"(asyra 1 global

program @f(%ids: i64[2, 4], %at: i64[4],
    %table: f32[32, 3] weight padded from [30, 3], %places: f32[4, 3] weight,
    %other: f32[3, 40] weight, %more: i64[4])
    -> (f32[2, 4, 3], f32[8, 3], f32[32, 3], f64[4, 3]) {
  %x = embedding(%table, %ids) : f32[2, 4, 3]
  %p = gather(%places, %at) {dim=0} : f32[4, 3]
  %h = add(%x, %p) : f32[2, 4, 3]
  %flat = reshape(%ids) {shape=[8]} : i64[8]
  %columns = gather(%other, %flat) {dim=1} : f32[3, 8]
  %y = transpose(%columns) {perm=[1, 0]} : f32[8, 3]
  %g = segment_sum(%h, %ids) {dim=0, size=32} : f32[32, 3]
  %wide = cast(%table) {to=f64} : f64[32, 3]
  %z = embedding(%wide, %more) {rows=29} : f64[4, 3]
  return %h, %y, %g, %z
}
)"));
  EXPECT_EQ(TokenLimit(program, program.FindValue("ids")), 30);
  EXPECT_EQ(TokenLimit(program, program.FindValue("flat")), 40);
  EXPECT_EQ(TokenLimit(program, program.FindValue("more")), 29);
  EXPECT_EQ(TokenLimit(program, program.FindValue("at")), 4);
  EXPECT_EQ(TokenLimit(program, program.FindValue("x")),
            std::numeric_limits<int64_t>::max());
}

// Labels go through a fusion and moves; those of rows are counted by the
// program.
TEST(ClassLimit, IsOfLabelsThatAreGiven) {
  auto limit = [](std::string_view labels) {
    return ClassLimit(ASYRA_VALUE(ParseProgram(fmt::format(R"(asyra 1 global

program @f(%labels: i64[4, 4], %x: f32[4, 3, 9], %rows: f32[4, 4])
    -> (f32[4, 3], f32[4]) {{
  %one = constant() {{value=i64[](-100)}} : i64[]
  %ignored = broadcast(%one) {{shape=[4, 4]}} : i64[4, 4]
  %seen = less(%ignored, %labels) : bool[4, 4]
  %counted = iota() {{shape=[4], dim=0, dtype=i64}} : i64[4]
  {}
  %other = cross_entropy(%rows, %counted) : f32[4]
  return %loss, %other
}}
)",
                                                           labels))));
  };
  constexpr char kMoved[] = R"(
  %at = slice(%chosen) {dim=1, start=1, stop=4} : i64[4, 3]
  %loss = cross_entropy(%x, %at) : f32[4, 3])";
  for (const char* chosen :
       {"%chosen = select(%seen, %labels, %ignored) : i64[4, 4]",
        "%chosen = fusion(%seen, %labels, %ignored) {\n"
        "  %3 = select(%0, %1, %2) : i64[4, 4]\n"
        "  %4 = select(%0, %3, %2) : i64[4, 4]\n"
        "  return %4\n} : i64[4, 4]"}) {
    EXPECT_EQ(limit(absl::StrCat(chosen, kMoved)), 9) << chosen;
  }
  for (const char* chosen :
       {"%chosen = select(%seen, %ignored, %ignored) : i64[4, 4]",
        "%chosen = max(%labels, %ignored) : i64[4, 4]"}) {
    EXPECT_EQ(limit(absl::StrCat(chosen, kMoved)),
              std::numeric_limits<int64_t>::max())
        << chosen;
  }
}

}  // namespace
}  // namespace asyra
