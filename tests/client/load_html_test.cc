// Goal: pages are whole, need nothing from elsewhere and run nothing, whatever
// the texts in them; plots show what they are given and where it is missing.
// Method: results by hand, with names that would be elements; the page read by
// a small parser that knows what a page may have.
#include "client/cli/load_html.h"

#include <chrono>
#include <limits>
#include <string>
#include <vector>

#include "client/cli/load_sweep_html.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace steadystate::client::load_html_test {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::Not;

constexpr char kEvil[] = "<script>alert('1')</script>\" onload=\"x&y";
constexpr double kGap = std::numeric_limits<double>::quiet_NaN();

LoadResult SomeResult() {
  LoadResult result;
  result.options.sessions = 64;
  result.options.slo = *ParseSlo("ttft:200ms,tpot:20ms");
  result.options.rate = 50;
  result.arrivals = 500;
  result.model.set_name(std::string("models/") + kEvil);
  result.model.set_family(kEvil);
  result.model.set_fingerprint(kEvil);
  result.window = absl::Seconds(10);
  result.sessions_created = result.sessions_left = 64;
  Tally& tally = result.tally;
  tally.completed = tally.window_completed = tally.window_good = 500;
  tally.server_errors[kEvil] = 1;
  tally.time_to_first_token.Record(milliseconds(20), 500);
  tally.inter_token.Record(milliseconds(2), 5000);
  tally.request.Record(milliseconds(80), 500);
  for (int i = 0; i < 40; ++i) {
    TimelineSlot& slot = tally.timeline.At(milliseconds(250) * i);
    slot.drawn_tokens = 100;
    slot.time_to_first_token.Record(milliseconds(20));
  }
  result.server.emplace();
  result.server->cpus = 1.5;
  result.server->queues = {{kEvil, 0.001, 0.002}};
  result.server->samples = {{1, 1.5, 3}, {2, 1.6, 4}};
  return result;
}

SweepResult SomeSweep() {
  SweepResult sweep;
  sweep.options = SomeResult().options;
  sweep.spec = *ParseSweep("rate:50,100");
  sweep.repeat = 2;
  for (const double rate : {50.0, 100.0}) {
    LoadResult run = SomeResult();
    run.options.rate = rate;
    sweep.points.push_back({rate, {run, run}});
  }
  sweep.points[1].runs[0].tally.window_unanswered = 7;
  sweep.knee = FindKnee(sweep);
  return sweep;
}

size_t Count(const std::string& text, const std::string& word) {
  size_t count = 0;
  for (size_t at = text.find(word); at != std::string::npos;
       at = text.find(word, at + 1)) {
    ++count;
  }
  return count;
}

// Each element that is opened is closed, in order, but for those without an
// end; and there is no element or attribute that runs or fetches anything.
void ExpectSound(const std::string& page) {
  std::vector<std::string> open;
  for (size_t at = page.find('<'); at != std::string::npos;
       at = page.find('<', at + 1)) {
    const size_t end = page.find('>', at);
    ASSERT_NE(end, std::string::npos);
    const std::string tag = page.substr(at + 1, end - at - 1);
    const size_t name_end = tag.find_first_of(" /", 1);
    const std::string name = tag.substr(0, name_end);
    if (name == "!DOCTYPE" || name == "meta" || tag.back() == '/') continue;
    if (name[0] == '/') {
      ASSERT_FALSE(open.empty()) << tag;
      ASSERT_EQ("/" + open.back(), name);
      open.pop_back();
      continue;
    }
    open.push_back(name);
    for (const char* bad : {"script", "link", "img", "iframe", "object"}) {
      EXPECT_NE(name, bad);
    }
    for (const char* bad : {" on", "href", "src=", "url("}) {
      EXPECT_THAT(tag, Not(HasSubstr(bad)));
    }
  }
  EXPECT_TRUE(open.empty());
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, Not(HasSubstr("nan")));
  EXPECT_THAT(page, Not(HasSubstr("inf\"")));
  EXPECT_THAT(page, HasSubstr("Content-Security-Policy"));
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme:dark"));
}

TEST(EscapeHtmlTest, NothingStaysThatMeansSomething) {
  EXPECT_EQ(EscapeHtml("a<b>&\"'"), "a&lt;b&gt;&amp;&quot;&#39;");
}

TEST(LoadHtmlTest, APageIsSoundWhateverTheNamesAre) {
  const std::string page = FormatLoadHtml(SomeResult());
  ExpectSound(page);
  // Model, family, fingerprint, error, phase.
  EXPECT_GE(Count(page, "&lt;script&gt;alert(&#39;1&#39;)"), 5u);
}

TEST(LoadHtmlTest, APageSaysHowItWentAndShowsIt) {
  LoadResult result = SomeResult();
  std::string page = FormatLoadHtml(result);
  EXPECT_THAT(page, HasSubstr("valid, SLO met"));
  EXPECT_THAT(page, HasSubstr("100.00 % of 500 requests within ttft:200ms"));
  // Tokens, requests, first token, inter-token (nothing in the timeline),
  // distribution, processors, waiting.
  EXPECT_EQ(Count(page, "<figure"), 6u);
  result.tally.window_good = 400;
  EXPECT_THAT(FormatLoadHtml(result), HasSubstr("SLO missed"));
  result.tally.window_unanswered = 3;
  page = FormatLoadHtml(result);
  EXPECT_THAT(page, HasSubstr("badge bad\">INVALID"));
  EXPECT_THAT(page, HasSubstr("3 requests that were to be sent"));
}

TEST(LoadHtmlTest, AResultOfNothingIsAPageToo) {
  ExpectSound(FormatLoadHtml(LoadResult()));
  ExpectSound(FormatSweepHtml(SweepResult()));
}

TEST(LoadHtmlTest, ASweepShowsItsPointsAndItsKnee) {
  const std::string page = FormatSweepHtml(SomeSweep());
  ExpectSound(page);
  EXPECT_THAT(page, HasSubstr("knee at rate 50"));
  EXPECT_THAT(page, HasSubstr("rate 100: 7 requests that were to be sent"));
  EXPECT_THAT(page, HasSubstr("<td>100</td><td>INVALID</td>"));
  EXPECT_GT(Count(page, "class=\"hollow c0\""), 0u);
  EXPECT_GT(Count(page, "class=\"mark c0\""), 0u);
  EXPECT_GE(Count(page, ">knee</text>"), 4u);
}

TEST(DrawPlotTest, AGapBreaksTheLine) {
  Plot plot{"t", "x"};
  plot.series = {{"s", {{0, 1}, {1, 2}, {2, kGap}, {3, 1}, {4, 2}}}};
  const std::string svg = DrawPlot(plot);
  const size_t path = svg.find(" d=\"");
  ASSERT_NE(path, std::string::npos);
  const std::string drawn = svg.substr(path, svg.find('"', path + 4) - path);
  EXPECT_EQ(Count(drawn, "M"), 2u);
  EXPECT_EQ(Count(drawn, "L"), 2u);
}

TEST(DrawPlotTest, PlacesFollowTheValues) {
  Plot plot{"t", "x"};
  plot.series = {{"s", {{0, 0}, {10, 100}}}};
  plot.horizontal = {{50, "limit"}};
  const std::string svg = DrawPlot(plot);
  // From the axes' corner to the right edge; 6 % of air above.
  EXPECT_THAT(svg, HasSubstr("d=\"M66.0,256.0L626.0,27.7\""));
  EXPECT_THAT(svg, HasSubstr("y1=\"141.8\""));
  EXPECT_THAT(svg, HasSubstr(">limit</text>"));
}

TEST(DrawPlotTest, WhatHasNoPointIsNotDrawn) {
  Plot plot{"t", "x"};
  EXPECT_EQ(DrawPlot(plot), "");
  plot.series = {{"s", {{0, kGap}}}};
  EXPECT_EQ(DrawPlot(plot), "");
}

}  // namespace
}  // namespace steadystate::client::load_html_test
