// Goal: options out of bounds are refused with option, value and bound; figures
// that do not say what they seem to are objected to, others are not. Method:
// each bound, just kept and just broken; results made by hand.
#include "client/load/load.h"

#include <chrono>
#include <functional>
#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace steadystate::client::load_test {
namespace {

using std::chrono::microseconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string ErrorOf(const std::function<void(LoadOptions&)>& change) {
  LoadOptions options;
  change(options);
  return std::string(Validate(options).message());
}

TEST(LoadOptionsTest, DefaultsAndExtremesAreFine) {
  EXPECT_EQ(ErrorOf([](LoadOptions&) {}), "");
  EXPECT_EQ(ErrorOf([](LoadOptions& o) {
              o.sessions = 1000000;
              o.streams = 1024;
              o.prompt_tokens = 1048576;
              o.generate_tokens = 1000000000;
              o.rate = 1e6;
              o.warmup = o.duration = o.drain = absl::Hours(24 * 365);
            }),
            "");
  EXPECT_EQ(ErrorOf([](LoadOptions& o) {
              o.sessions = o.streams = 1;
              o.prompt_tokens = o.generate_tokens = 1;
              o.warmup = o.duration = o.drain = absl::ZeroDuration();
              o.max_send_lag = absl::ZeroDuration();
            }),
            "");
}

TEST(LoadOptionsTest, ErrorsNameOptionValueAndBound) {
  EXPECT_EQ(ErrorOf([](LoadOptions& o) { o.sessions = 0; }),
            "--sessions is 0; it must be 1 to 1000000");
  EXPECT_THAT(ErrorOf([](LoadOptions& o) { o.streams = 1025; }),
              AllOf(HasSubstr("--streams is 1025"), HasSubstr("1024")));
  EXPECT_THAT(ErrorOf([](LoadOptions& o) { o.prompt_tokens = 1048577; }),
              AllOf(HasSubstr("--prompt_tokens"), HasSubstr("1048576")));
  EXPECT_THAT(ErrorOf([](LoadOptions& o) { o.generate_tokens = 0; }),
              HasSubstr("--generate_tokens is 0"));
  EXPECT_THAT(ErrorOf([](LoadOptions& o) { o.streams = 9; }),
              AllOf(HasSubstr("--streams is 9"), HasSubstr("8")));
  EXPECT_THAT(ErrorOf([](LoadOptions& o) { o.duration = -absl::Seconds(1); }),
              HasSubstr("--duration is -1s"));
  EXPECT_THAT(
      ErrorOf([](LoadOptions& o) { o.warmup = absl::InfiniteDuration(); }),
      HasSubstr("--warmup"));
}

TEST(LoadOptionsTest, ConnectionsCarryAtLeastOneCall) {
  EXPECT_THAT(ErrorOf([](LoadOptions& o) { o.connections = 0; }),
              HasSubstr("--connections is 0"));
  EXPECT_THAT(ErrorOf([](LoadOptions& o) { o.connections = 2; }),
              HasSubstr("more than the 1 of --streams"));
  EXPECT_THAT(ErrorOf([](LoadOptions& o) {
                o.rpc = LoadRpc::kGenerate;
                o.connections = 9;
              }),
              HasSubstr("more than the 8 of --sessions"));
}

TEST(LoadOptionsTest, RequestsArriveInOneWay) {
  const auto stages = [](LoadOptions& o) {
    o.stages = {{absl::Seconds(1), 5}};
  };
  EXPECT_EQ(ErrorOf(stages), "");
  EXPECT_THAT(ErrorOf([&stages](LoadOptions& o) {
                stages(o);
                o.rate = 5;
              }),
              HasSubstr("only one of --rate, --stages and --trace"));
  EXPECT_THAT(
      ErrorOf([](LoadOptions& o) { o.arrivals = ArrivalProcess::kConstant; }),
      HasSubstr("--arrivals is for --rate and --stages"));
}

TEST(LoadOptionsTest, LengthsHaveBoundsWhateverTheirDistribution) {
  EXPECT_THAT(ErrorOf([](LoadOptions& o) {
                o.prompt_tokens = *Lengths::Parse("uniform:0:9");
              }),
              HasSubstr("--prompt_tokens is uniform:0:9; it must be 1 to"));
  EXPECT_THAT(ErrorOf([](LoadOptions& o) {
                o.prompt_tokens = *Lengths::Parse("lognormal:9:9:9999999");
              }),
              HasSubstr("it must be 1 to 1048576"));
}

TEST(ParsePromptsTest, EachLineIsOne) {
  EXPECT_THAT(*ParsePrompts("The first\n\n second\r\n"),
              ElementsAre("The first", " second"));
  EXPECT_FALSE(ParsePrompts("\n\n").ok());
  std::string many;
  for (size_t i = 0; i < kMaxPrompts; ++i) many += "x\n";
  EXPECT_TRUE(ParsePrompts(many).ok());
  EXPECT_EQ(ParsePrompts(many + "y").status().message(),
            "more than 10000 lines");
}

TEST(SloTest, IsReadAsItIsWritten) {
  const auto slo = ParseSlo("tpot:20ms,ttft:200ms");
  ASSERT_TRUE(slo.ok()) << slo.status();
  EXPECT_EQ(ToString(*slo), "ttft:200ms,tpot:20ms");
  EXPECT_EQ(slo->attainment, 0.99);
  const auto error = [](const char* text) {
    return std::string(ParseSlo(text).status().message());
  };
  EXPECT_THAT(error(""), HasSubstr("'' is not ttft:"));
  EXPECT_THAT(error("itl:20ms"), HasSubstr("'itl:20ms' is not"));
  EXPECT_THAT(error("ttft:20"), HasSubstr("'20' of ttft"));
  EXPECT_THAT(error("ttft:0"), HasSubstr("above 0"));
  EXPECT_THAT(error("e2e:1s,e2e:2s"), HasSubstr("e2e is given twice"));
}

TEST(SloTest, ARequestIsGoodUpToTheLimit) {
  const Slo slo = *ParseSlo("ttft:200ms,tpot:20ms,e2e:1s");
  using std::chrono::milliseconds;
  EXPECT_TRUE(
      slo.Meets({milliseconds(200), milliseconds(20), milliseconds(1000)}));
  EXPECT_FALSE(
      slo.Meets({milliseconds(201), milliseconds(0), milliseconds(0)}));
  EXPECT_FALSE(slo.Meets({milliseconds(0), milliseconds(21), milliseconds(0)}));
  EXPECT_FALSE(
      slo.Meets({milliseconds(0), milliseconds(0), milliseconds(1001)}));
  EXPECT_TRUE(
      Slo().Meets({milliseconds(9999), milliseconds(0), milliseconds(0)}));
}

TEST(LoadOptionsTest, TheRateIsAFiniteNumber) {
  for (const double rate : {-1.0, 1e7, std::numeric_limits<double>::infinity(),
                            std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THAT(ErrorOf([rate](LoadOptions& o) { o.rate = rate; }),
                HasSubstr("--rate is"));
  }
}

// Ten seconds of an open loop that went well.
LoadResult GoodResult() {
  LoadResult result;
  result.options.sessions = 8;
  result.options.rate = 100;
  result.window = absl::Seconds(10);
  result.sessions_created = result.sessions_left = 8;
  result.arrivals = 1000;
  result.tally.completed = result.tally.window_completed = 995;
  result.tally.window_drawn_tokens = 32000;
  result.tally.window_prompt_tokens = 16000;
  result.send_lag.Record(microseconds(100), 995);
  result.send_lag.Record(microseconds(50000), 5);
  result.processors = 4;
  result.client_cpus = 1.9;
  return result;
}

TEST(LoadResultTest, RatesAreThoseOfTheWindow) {
  const LoadResult result = GoodResult();
  EXPECT_DOUBLE_EQ(TokensPerSecond(result), 3200);
  EXPECT_DOUBLE_EQ(PromptTokensPerSecond(result), 1600);
  EXPECT_DOUBLE_EQ(RequestsPerSecond(result), 99.5);
  EXPECT_DOUBLE_EQ(TokensPerSecond(LoadResult()), 0);
}

TEST(LoadResultTest, NothingIsWrongWithAGoodRun) {
  EXPECT_THAT(Objections(GoodResult()), IsEmpty());
  EXPECT_THAT(Remarks(GoodResult()), IsEmpty());
}

TEST(LoadResultTest, ATesterThatSendsLateSaysSo) {
  LoadResult result = GoodResult();
  result.send_lag.Record(microseconds(50000), 10);
  EXPECT_THAT(Objections(result),
              ElementsAre(HasSubstr("p99 of the send lag is 50")));
  result.options.max_send_lag = absl::Milliseconds(51);
  EXPECT_THAT(Objections(result), IsEmpty());
}

TEST(LoadResultTest, ARateThatIsNotAchievedIsSaid) {
  LoadResult result = GoodResult();
  // What may be under way, and one per cent, are missing without harm.
  result.tally.window_completed = 982;
  EXPECT_THAT(Objections(result), IsEmpty());
  result.tally.window_completed = 981;
  EXPECT_THAT(Objections(result), ElementsAre(HasSubstr("981 were completed")));
  result.options.rate = 0;
  EXPECT_THAT(Objections(result), IsEmpty());
}

TEST(LoadResultTest, RequestsThatFailedAreNotARateThatWasNotAchieved) {
  LoadResult result = GoodResult();
  result.tally.window_completed = 900;
  result.tally.window_failed = 95;
  EXPECT_THAT(
      Objections(result),
      ElementsAre(HasSubstr("95 of 1000 requests that arrived failed")));
}

TEST(LoadResultTest, WhatWasNeverAnsweredMakesARunInvalid) {
  LoadResult result = GoodResult();
  result.options.rate = 0;
  result.tally.window_unanswered = 5;
  EXPECT_THAT(Objections(result), ElementsAre(HasSubstr("5 requests")));
  result.tally.window_unanswered = 0;
  result.sessions_unheard = 4;
  EXPECT_THAT(Objections(result),
              ElementsAre(HasSubstr("4 of 8 sessions never had an answer")));
}

TEST(LoadResultTest, RequestsThatWereNeverSentAreSaid) {
  LoadResult result = GoodResult();
  result.unsent = 3;
  EXPECT_THAT(Objections(result), ElementsAre(HasSubstr("3 requests")));
}

TEST(LoadResultTest, GoodputIsOfWhatWasDue) {
  LoadResult result = GoodResult();
  EXPECT_TRUE(MeetsSlo(result));
  result.options.slo = *ParseSlo("ttft:200ms");
  result.tally.window_good = 990;
  EXPECT_DOUBLE_EQ(Goodput(result), 99);
  EXPECT_DOUBLE_EQ(SloAttainment(result), 0.99);
  EXPECT_TRUE(MeetsSlo(result));
  result.tally.window_good = 989;
  EXPECT_FALSE(MeetsSlo(result));
  // A closed loop has no arrivals: what ended, unanswered and failed ones too.
  result.options.rate = 0;
  result.tally.request.Record(microseconds(1), 980);
  result.tally.window_failed = 20;
  EXPECT_EQ(RequestsDue(result), 1000u);
  EXPECT_DOUBLE_EQ(SloAttainment(result), 0.989);
  EXPECT_DOUBLE_EQ(SloAttainment(LoadResult()), 0);
}

TEST(LoadResultTest, FewerSessionsAreAnotherLoad) {
  LoadResult result = GoodResult();
  result.options.sessions = 64;
  result.refusal = absl::ResourceExhaustedError("the budget is spent");
  EXPECT_THAT(Objections(result),
              ElementsAre("of 64 sessions 8 could be created, so this was "
                          "another load than was asked for: the budget is "
                          "spent"));
}

TEST(LoadResultTest, CallsBeyondWhatAConnectionCarriesAreSaid) {
  LoadResult result = GoodResult();
  result.options.rpc = LoadRpc::kGenerate;
  result.options.sessions = 2000;
  result.sessions_created = result.sessions_left = 2000;
  result.peak_calls = 1024;
  EXPECT_THAT(Remarks(result), IsEmpty());
  result.peak_calls = 2000;
  EXPECT_THAT(Remarks(result),
              ElementsAre(AllOf(HasSubstr("2000 calls were open at once"),
                                HasSubstr("976 waited within this client"),
                                HasSubstr("--connections 2"))));
  result.options.connections = 2;
  EXPECT_THAT(Remarks(result), IsEmpty());
  // Steps of all sessions go over a few streams.
  result.options.connections = 1;
  result.options.rpc = LoadRpc::kStep;
  EXPECT_THAT(Remarks(result), IsEmpty());
}

TEST(LoadResultTest, RemarksAreMadeOnWhatMayDeceive) {
  LoadResult result = GoodResult();
  result.client_cpus = 2.1;
  EXPECT_THAT(Remarks(result), ElementsAre(HasSubstr("2.1 of 4 processors")));
  result = GoodResult();
  result.tally.of_unknown_extent = 2;
  EXPECT_THAT(Remarks(result), ElementsAre(HasSubstr("for 2 requests")));
  result = GoodResult();
  result.tally.given_up = 4;
  EXPECT_THAT(Remarks(result), ElementsAre(HasSubstr("gave up on 4 calls")));
  result = GoodResult();
  result.sessions_undeleted = 6;
  EXPECT_THAT(Remarks(result),
              ElementsAre(HasSubstr("6 sessions could not be deleted")));
  result = GoodResult();
  result.sessions_left = 7;
  EXPECT_THAT(Remarks(result), ElementsAre(HasSubstr("7 were in use")));
  result = GoodResult();
  result.tally.completed = 0;
  EXPECT_THAT(Remarks(result), ElementsAre(HasSubstr("--duration")));
}

}  // namespace
}  // namespace steadystate::client::load_test
