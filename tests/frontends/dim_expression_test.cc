#include "frontends/onnx/dim_expression.h"

#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/support/status.h"

namespace asyra::onnx_import {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<int64_t> ValueOf(std::string_view text) {
  std::map<std::string, int64_t> sizes = {
      {"past", 7}, {"n", 3}, {"a.b", 5}, {"huge", INT64_MAX}};
  return ValueOfDim(text, [&](const std::string& name) { return sizes[name]; });
}

TEST(DimExpression, NamesAreThoseOfAnExpression) {
  auto names = [](std::string_view text) {
    return NamesInDim(text).value_or(std::vector<std::string>{"none"});
  };
  EXPECT_THAT(names("past + 1"), ElementsAre("past"));
  EXPECT_THAT(names("past_sequence_length + sequence_length"),
              ElementsAre("past_sequence_length", "sequence_length"));
  EXPECT_THAT(names("2*n"), ElementsAre("n"));
  EXPECT_THAT(names("n*n + m"), ElementsAre("n", "m"));
  EXPECT_THAT(names("n // 0"), ElementsAre("n"));
  for (const char* text :
       {"batch", "", "5", "4 + 4", "batch size", "past +", "(past + 1",
        "past + 1)", "input:0 + 1", "2x", "2x + 1", "unk__5", "f(n)", "n, 1",
        "n ** 2", "?", "past + é"}) {
    EXPECT_THAT(names(text), ElementsAre("none")) << text;
  }
  EXPECT_THAT(names(std::string(100000, '(')), ElementsAre("none"));
}

TEST(DimExpression, HasTheValueOfPython) {
  const std::map<std::string, int64_t> values = {{"past + 1", 8},
                                                 {"past+n", 10},
                                                 {"2*n", 6},
                                                 {"past - n - 1", 3},
                                                 {"n - past", -4},
                                                 {"2*(past - 1)", 12},
                                                 {"((past - 1)//2) + 1", 4},
                                                 {"(n - past)//3", -2},
                                                 {"(n - past)%3", 2},
                                                 {"floor(past/2)", 3},
                                                 {"(past + n)/2", 5},
                                                 {"Max(1, past, n)", 7},
                                                 {"Min(n, past) + 1", 4},
                                                 {"-n + past", 4},
                                                 {"a.b*n", 15}};
  for (const auto& [text, value] : values) {
    auto got = ValueOf(text);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(*got, value) << text;
  }
}

TEST(DimExpression, RefusesWhatHasNoSize) {
  auto error = [](std::string_view text) {
    return std::string(MessageOf(ValueOf(text).status()));
  };
  EXPECT_THAT(error("n // zero"), HasSubstr("divides by 0"));
  EXPECT_THAT(error("past/n"), HasSubstr("divides 7 by 3"));
  EXPECT_THAT(error("huge + 1"), HasSubstr("more than 2^63-1"));
  EXPECT_THAT(error("huge*2"), HasSubstr("more than 2^63-1"));
}

}  // namespace
}  // namespace asyra::onnx_import
