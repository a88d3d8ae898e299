// Goal: reports of the same load are compared, the right way round and no surer
// than they can be; others are refused, with what differs. Method: reports as
// the tester writes them, changed in one place each.
#include "client/cli/load_compare.h"

#include <string>
#include <utility>

#include "client/cli/load_report.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace steadystate::client::load_compare_test {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;
using Verdict = ComparedFigure::Verdict;

LoadResult SomeResult() {
  LoadResult result;
  result.options.sessions = 8;
  result.model.set_name("models/demo");
  result.window = absl::Seconds(10);
  result.sessions_created = result.sessions_left = 8;
  Tally& tally = result.tally;
  tally.completed = tally.window_completed = 1000;
  tally.window_drawn_tokens = 32000;
  tally.time_to_first_token.Record(milliseconds(20), 1000);
  tally.request.Record(milliseconds(90), 1000);
  return result;
}

std::string Text(const LoadResult& result) {
  return FormatLoadJson(result).dump();
}

SweepResult Repeated(std::initializer_list<uint64_t> tokens) {
  SweepResult sweep;
  sweep.repeat = tokens.size();
  sweep.points.resize(1);
  for (const uint64_t count : tokens) {
    sweep.points[0].runs.push_back(SomeResult());
    sweep.points[0].runs.back().tally.window_drawn_tokens = count;
  }
  return sweep;
}

SweepResult OfRates(std::initializer_list<double> rates) {
  SweepResult sweep;
  sweep.spec = *ParseSweep("rate:auto");
  for (const double rate : rates) {
    LoadResult run = SomeResult();
    run.options.rate = rate;
    run.arrivals = 1000;
    sweep.points.push_back({rate, {run}});
  }
  return sweep;
}

std::string ErrorOf(const std::string& a, const std::string& b) {
  return std::string(CompareReports(a, b).status().message());
}

ComparedFigure FigureOf(const LoadComparison& comparison,
                        const std::string& name) {
  for (const ComparedFigure& figure : comparison.points[0].figures) {
    if (figure.name == name) return figure;
  }
  ADD_FAILURE() << "no " << name;
  return {};
}

TEST(CompareReportsTest, MoreTokensAreBetterAndLessTimeIs) {
  LoadResult other = SomeResult();
  other.tally.window_drawn_tokens = 16000;
  other.tally.time_to_first_token = {};
  other.tally.time_to_first_token.Record(milliseconds(10), 1000);
  const auto comparison = CompareReports(Text(SomeResult()), Text(other));
  ASSERT_TRUE(comparison.ok()) << comparison.status();
  EXPECT_EQ(FigureOf(*comparison, "tokens_per_second").verdict,
            Verdict::kWorse);
  EXPECT_EQ(FigureOf(*comparison, "time_to_first_token_p99").verdict,
            Verdict::kBetter);
  EXPECT_EQ(FigureOf(*comparison, "request_p99").verdict, Verdict::kSame);
  const std::string text = FormatComparisonText(*comparison);
  EXPECT_THAT(text, HasSubstr("tokens_per_second                      3200     "
                              "        1600    0.500  worse\n"));
  EXPECT_THAT(text, HasSubstr("one run each: how much of a difference"));
  const Json json = FormatComparisonJson(*comparison);
  const Json& figure = json["points"][0]["figures"]["tokens_per_second"];
  EXPECT_EQ(figure["ratio"], 0.5);
  EXPECT_EQ(figure["b_is"], "worse");
  EXPECT_EQ(figure["a"]["half_width_95"], Json());
}

TEST(CompareReportsTest, RepeatedRunsTellChanceFromDifference) {
  const auto text = [](const SweepResult& sweep) {
    return FormatSweepJson(sweep).dump();
  };
  const SweepResult a = Repeated({30000, 32000, 34000});
  const auto near =
      CompareReports(text(a), text(Repeated({31000, 33500, 35500})));
  ASSERT_TRUE(near.ok()) << near.status();
  EXPECT_EQ(FigureOf(*near, "tokens_per_second").verdict, Verdict::kUncertain);
  const auto far =
      CompareReports(text(a), text(Repeated({50000, 52000, 54000})));
  ASSERT_TRUE(far.ok()) << far.status();
  EXPECT_EQ(FigureOf(*far, "tokens_per_second").verdict, Verdict::kBetter);
  EXPECT_EQ(FigureOf(*far, "tokens_per_second").a.count, 3u);
  EXPECT_THAT(FormatComparisonText(*far),
              HasSubstr("3200 +-16 %      5200 +-10 %    1.625  better\n"));
}

TEST(CompareReportsTest, SweepsAreComparedWhereBothHaveValues) {
  const auto comparison =
      CompareReports(FormatSweepJson(OfRates({10, 20})).dump(),
                     FormatSweepJson(OfRates({20, 40})).dump());
  ASSERT_TRUE(comparison.ok()) << comparison.status();
  ASSERT_THAT(comparison->points, SizeIs(1));
  EXPECT_EQ(comparison->points[0].value, 20);
  EXPECT_THAT(FormatComparisonText(*comparison), HasSubstr("\nrate 20\n"));
  EXPECT_THAT(ErrorOf(FormatSweepJson(OfRates({10})).dump(),
                      FormatSweepJson(OfRates({20})).dump()),
              HasSubstr("no rate in common"));
}

TEST(CompareReportsTest, OtherLoadsAreRefusedWithWhatDiffers) {
  LoadResult other = SomeResult();
  other.options.sessions = 16;
  other.options.prompt_tokens = *Lengths::Parse("uniform:8:24");
  EXPECT_THAT(ErrorOf(Text(SomeResult()), Text(other)),
              AllOf(HasSubstr("sessions 8 and 16"),
                    HasSubstr("prompt_lengths \"16\" and \"uniform:8:24\"")));
  EXPECT_THAT(
      ErrorOf(Text(SomeResult()), FormatSweepJson(Repeated({1, 2})).dump()),
      AllOf(HasSubstr("A is a report of one run and B is one of repeated runs"),
            HasSubstr("only like can be compared: make both")));
}

TEST(CompareReportsTest, InvalidOnesAreRefusedWithTheReason) {
  LoadResult invalid = SomeResult();
  invalid.tally.window_unanswered = 5;
  EXPECT_THAT(ErrorOf(Text(SomeResult()), Text(invalid)),
              HasSubstr("B is INVALID: 5 requests that were to be sent"));
  EXPECT_THAT(ErrorOf(Text(invalid), Text(SomeResult())),
              HasSubstr("A is INVALID"));
}

TEST(CompareReportsTest, OtherModelsAndMachinesAreSaid) {
  LoadResult other = SomeResult();
  other.model.set_name("models/other");
  other.processors = 64;
  other.options.seed = 2;
  const auto comparison = CompareReports(Text(SomeResult()), Text(other));
  ASSERT_TRUE(comparison.ok()) << comparison.status();
  const std::string text = FormatComparisonText(*comparison);
  EXPECT_THAT(text, HasSubstr("model/name is \"models/demo\" in A"));
  EXPECT_THAT(text, HasSubstr("processors is 0 in A and 64 in B"));
  EXPECT_THAT(text, HasSubstr("options/seed is 1 in A and 2 in B"));
}

TEST(CompareReportsTest, ReportsOfBeforeAreStillRead) {
  Json old = FormatLoadJson(SomeResult());
  for (const char* name :
       {"connections", "prompt_lengths", "prompts", "generate_lengths",
        "arrival_process", "stages", "trace_arrivals", "slo", "slo_attainment",
        "durability"}) {
    old["options"].erase(name);
  }
  for (const char* name :
       {"goodput", "server", "timeline", "peak_calls", "mean_prompt_tokens"}) {
    old.erase(name);
  }
  const auto comparison = CompareReports(old.dump(), Text(SomeResult()));
  EXPECT_TRUE(comparison.ok()) << comparison.status();
}

TEST(CompareReportsTest, WhatIsNoReportIsSaidSo) {
  const std::string good = Text(SomeResult());
  for (const char* text :
       {"", "[]", "{", "{\"schema\": 3}", "{\"schema\": \"other/1\"}",
        "{\"schema\": \"steadystate.load/1\"}",
        "{\"schema\": \"steadystate.load/1\", \"valid\": true, \"options\": "
        "{}, \"tokens_per_second\": \"many\"}",
        "{\"schema\": \"steadystate.load_sweep/1\", \"variable\": \"rate\", "
        "\"points\": [3]}",
        "{\"schema\": \"steadystate.load_sweep/1\", \"variable\": \"rate\", "
        "\"points\": []}"}) {
    EXPECT_THAT(ErrorOf(text, good), HasSubstr("A is no report of")) << text;
    EXPECT_THAT(ErrorOf(good, text), HasSubstr("B is no report of")) << text;
  }
}

}  // namespace
}  // namespace steadystate::client::load_compare_test
