#include "tools/train/loss_page.h"

#include <algorithm>
#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace asyra {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

LossPageData Losses(const std::string& title,
                    const std::vector<double>& losses) {
  LossPageData data{.title = title};
  std::vector<TrainMetrics>& metrics = data.metrics;
  for (double loss : losses) {
    metrics.push_back({.step = static_cast<int64_t>(metrics.size()) + 1,
                       .loss = loss,
                       .norm = 1,
                       .tokens_per_s = 10});
  }
  return data;
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
    if (name == "!doctype" || name == "meta" || tag.ends_with("/")) continue;
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
  std::string page = LossPage(Losses("tiny", {5, 4, 3.5, 3}));
  EXPECT_EQ(Points(page), (std::vector<int64_t>{4, 4, 4}));
  EXPECT_THAT(page, HasSubstr("<title>tiny</title>"));
  ExpectWellFormed(page);
  // Other files are not needed.
  EXPECT_THAT(page, Not(HasSubstr("href")));
  EXPECT_THAT(page, Not(HasSubstr("src=")));
}

TEST(LossPage, LeavesOutWhatIsNoNumber) {
  std::string page = LossPage(Losses("tiny", {5, NAN, HUGE_VAL, 3}));
  EXPECT_EQ(Points(page), (std::vector<int64_t>{2, 4, 4}));
  EXPECT_THAT(page, Not(HasSubstr("nan")));
  EXPECT_THAT(page, Not(HasSubstr("inf")));
  ExpectWellFormed(page);
  // No loss at all: only the norm and the speed have curves.
  page = LossPage(Losses("tiny", {NAN, NAN}));
  EXPECT_EQ(Points(page), (std::vector<int64_t>{2, 2}));
  ExpectWellFormed(page);
}

TEST(LossPage, OneStepIsAPage) {
  std::string page = LossPage(Losses("tiny", {5}));
  EXPECT_EQ(Points(page), (std::vector<int64_t>{1, 1, 1}));
  EXPECT_THAT(page, Not(HasSubstr("nan")));
  ExpectWellFormed(page);
}

TEST(LossPage, ManyStepsKeepTheirExtremes) {
  std::vector<double> losses(100'000, 2);
  losses[77'777] = 9;
  losses[50'001] = -1;
  std::string page = LossPage(Losses("long", losses));
  for (int64_t points : Points(page)) EXPECT_LE(points, 4000);
  // At the upper and the lower end of the chart.
  EXPECT_THAT(page, HasSubstr(",12.0 "));
  EXPECT_THAT(page, HasSubstr(",226.0 "));
  EXPECT_LT(page.size(), 300'000u);
}

TEST(LossPage, EvaluationsAreInTheCurveOfTheLoss) {
  LossPageData data = Losses("tiny", {5, 4, 3});
  data.evaluations = {{2, 4.5}, {3, 6}};
  std::string page = LossPage(data);
  EXPECT_THAT(page,
              HasSubstr("<polyline class=\"evaluation\" points=\"475.0,"));
  EXPECT_THAT(page, HasSubstr(",12.0 \"/>"));  // the highest of all
  ExpectWellFormed(page);
}

TEST(LossPage, HasTheTimelines) {
  LossPageData data = Losses("tiny", {5, 4});
  Profile profile;
  profile.model = "step 2";
  profile.streams = {"compute"};
  profile.ops = {{.name = "a", .op = "add", .end_us = 10}};
  SumUp(&profile);
  data.timelines = {profile, profile};
  std::string page = LossPage(data);
  EXPECT_EQ(Points(page), (std::vector<int64_t>{2, 2, 2}));
  EXPECT_THAT(page, HasSubstr("\"names\": [\"predicted\", \"measured\"]"));
  EXPECT_THAT(page, HasSubstr("<title>tiny</title>"));
}

TEST(LossPage, AxesHaveRoundNumbers) {
  LossPageData data;
  for (int step = 1; step <= 60; ++step) {
    data.metrics.push_back({.step = step, .loss = 5.541 - 0.04 * step});
  }
  std::string page = LossPage(data);
  for (const char* text : {">3.5</text>", ">4</text>", ">5.5</text>",
                           ">10</text>", ">60</text>"}) {
    EXPECT_THAT(page, HasSubstr(text));
  }
  EXPECT_THAT(page, Not(HasSubstr(">3.141</text>")));
}

TEST(LossPage, ATitleIsText) {
  std::string page = LossPage(Losses("a <b> & \"c\"", {5, 4}));
  EXPECT_THAT(page, HasSubstr("<h1>a &lt;b&gt; &amp; \"c\"</h1>"));
  ExpectWellFormed(page);
}

}  // namespace
}  // namespace asyra
