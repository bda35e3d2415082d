#include "simulator/report/page.h"

#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "simulator/report/profile_json.h"

namespace asyra {
namespace {

using testing::HasSubstr;
using testing::Not;

Profile OneOp(const std::string& name) {
  Profile profile;
  profile.model = name;
  profile.streams = {"compute"};
  profile.ops = {{.name = name, .op = "add", .end_us = 10}};
  SumUp(&profile);
  return profile;
}

std::string DataOf(const std::string& page) {
  constexpr std::string_view kBegin = "id=\"data\">";
  size_t from = page.find(kBegin) + kBegin.size();
  return page.substr(from, page.find("</script>", from) - from);
}

// Nothing in the data ends its element, and it is still the same data.
TEST(Page, HoldsItsDataWhateverTheNames) {
  std::string name = "</script><b>&\"\\\xff";
  auto json =
      nlohmann::json::parse(DataOf(ProfilePage({OneOp(name)})), nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  EXPECT_EQ(json["profiles"].size(), 1u);
  EXPECT_EQ(json["profiles"][0]["model"], "</script><b>&\"\\\xef\xbf\xbd");
}

TEST(Page, OfTwoHasTheirDifferences) {
  std::string page = ProfilePage({OneOp("a"), OneOp("b")});
  auto json = nlohmann::json::parse(DataOf(page), nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  EXPECT_EQ(json["profiles"].size(), 2u);
  EXPECT_EQ(json["differences"].size(), 2u);
}

TEST(Page, LoadsNothing) {
  for (const std::string& page :
       {ProfilePage({OneOp("a")}), SweepPage("{\"grid\": []}")}) {
    EXPECT_THAT(page, Not(HasSubstr("src=")));
    EXPECT_THAT(page, Not(HasSubstr("href=")));
    EXPECT_THAT(page, Not(HasSubstr("@import")));
    EXPECT_THAT(page, Not(HasSubstr("fetch(")));
  }
}

}  // namespace
}  // namespace asyra
