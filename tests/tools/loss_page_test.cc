#include "tools/loss_page.h"

#include <algorithm>
#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace asyra {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::vector<TrainMetrics> Losses(const std::vector<double>& losses) {
  std::vector<TrainMetrics> metrics;
  for (double loss : losses) {
    metrics.push_back({.step = static_cast<int64_t>(metrics.size()) + 1,
                       .loss = loss,
                       .norm = 1,
                       .tokens_per_s = 10});
  }
  return metrics;
}

// How many points each curve of the page has.
std::vector<int64_t> Points(const std::string& page) {
  std::vector<int64_t> counts;
  const std::string begin = "<polyline points=\"";
  for (size_t at = page.find(begin); at != std::string::npos;
       at = page.find(begin, at + 1)) {
    size_t end = page.find('"', at + begin.size());
    counts.push_back(std::count(page.begin() + at, page.begin() + end, ','));
  }
  return counts;
}

// Every tag that is opened is closed, in order; those that need no end do not.
void ExpectWellFormed(const std::string& page) {
  std::vector<std::string> open;
  for (size_t at = page.find('<'); at != std::string::npos;
       at = page.find('<', at + 1)) {
    size_t end = page.find('>', at);
    ASSERT_NE(end, std::string::npos);
    std::string tag = page.substr(at + 1, end - at - 1);
    std::string name = tag.substr(0, tag.find_first_of(" \n"));
    if (name == "!DOCTYPE" || name == "meta" || tag.ends_with("/")) continue;
    if (name[0] != '/') {
      open.push_back(name);
      continue;
    }
    ASSERT_FALSE(open.empty()) << tag;
    EXPECT_EQ("/" + open.back(), name);
    open.pop_back();
  }
  EXPECT_TRUE(open.empty()) << open.back();
}

TEST(LossPage, HasAPointForEachStep) {
  std::string page = LossPage("tiny", Losses({5, 4, 3.5, 3}));
  EXPECT_EQ(Points(page), (std::vector<int64_t>{4, 4, 4}));
  EXPECT_THAT(page, HasSubstr("<title>tiny</title>"));
  ExpectWellFormed(page);
  // Other files are not needed.
  EXPECT_THAT(page, Not(HasSubstr("href")));
  EXPECT_THAT(page, Not(HasSubstr("src=")));
}

TEST(LossPage, LeavesOutWhatIsNoNumber) {
  std::string page = LossPage("tiny", Losses({5, NAN, HUGE_VAL, 3}));
  EXPECT_EQ(Points(page), (std::vector<int64_t>{2, 4, 4}));
  EXPECT_THAT(page, Not(HasSubstr("nan")));
  EXPECT_THAT(page, Not(HasSubstr("inf")));
  ExpectWellFormed(page);
  // No loss at all: only the norm and the speed have curves.
  page = LossPage("tiny", Losses({NAN, NAN}));
  EXPECT_EQ(Points(page), (std::vector<int64_t>{2, 2}));
  ExpectWellFormed(page);
}

TEST(LossPage, OneStepIsAPage) {
  std::string page = LossPage("tiny", Losses({5}));
  EXPECT_EQ(Points(page), (std::vector<int64_t>{1, 1, 1}));
  EXPECT_THAT(page, Not(HasSubstr("nan")));
  ExpectWellFormed(page);
}

TEST(LossPage, ATitleIsText) {
  std::string page = LossPage("a <b> & \"c\"", Losses({5, 4}));
  EXPECT_THAT(page, HasSubstr("<h1>a &lt;b&gt; &amp; \"c\"</h1>"));
  ExpectWellFormed(page);
}

}  // namespace
}  // namespace asyra
