// Goal: what a log line looks like, and what is left out. Method: standard
// error captured, without the thread that servers write from.
#include "server/base/logging.h"

#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace steadystate::logging_test {
namespace {

using nlohmann::json;
using testing::EndsWith;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::SizeIs;

template <typename Do>
std::string Logged(const Do& log) {
  testing::internal::CaptureStderr();
  log();
  return testing::internal::GetCapturedStderr();
}

TEST(LogTest, WritesALineOfKeysAndValues) {
  const std::string line = Logged([] {
    LogWarning("two words", {{"path", "a/b"}, {"n", 3}, {"text", "x \"y\"\n"}});
  });
  EXPECT_THAT(line, MatchesRegex("....-..-..T..:..:..\\....Z WARNING two words "
                                 "path=a/b n=3 text=\"x .\"y.\".n\"\n"));
}

TEST(LogTest, LeavesOutWhatIsBelowTheMinimum) {
  SetMinLogLevel(LogLevel::kWarning);
  LogLimiter limiter;
  EXPECT_EQ(Logged([&limiter] {
              LogInfo("not this");
              LogLimited(limiter, LogLevel::kInfo, "nor this");
            }),
            "");
  SetMinLogLevel(LogLevel::kOff);
  EXPECT_EQ(Logged([] { LogError("nor this"); }), "");
  EXPECT_EQ(Logged([] { LogPlain("but this\n"); }), "but this\n");
  SetMinLogLevel(LogLevel::kInfo);
}

TEST(LogTest, WritesJsonIfItIsToldTo) {
  SetLogFormat(LogFormat::kJson);
  const std::string line = Logged([] {
    LogWarning("two words",
               {{"path", "a/\xc3\xa4"}, {"n", 3}, {"text", "x \"y\"\n\xff"}});
  });
  const std::string cut = Logged([] {
    LogInfo(std::string(600, 'm'), {{"text", std::string(5000, '\n')}});
  });
  LogLimiter limiter;
  const std::string limited =
      Logged([&limiter] { LogLimited(limiter, LogLevel::kInfo, "a"); });
  SetLogFormat(LogFormat::kText);
  const json parsed = json::parse(line);
  EXPECT_THAT(parsed["time"].get<std::string>(),
              MatchesRegex("....-..-..T..:..:..\\....Z"));
  EXPECT_EQ(parsed["level"], "WARNING");
  EXPECT_EQ(parsed["message"], "two words");
  EXPECT_EQ(parsed["path"], "a/\xc3\xa4");
  EXPECT_EQ(parsed["n"], "3");
  EXPECT_EQ(parsed["text"], "x \"y\"\n\xef\xbf\xbd");
  EXPECT_THAT(cut, SizeIs(testing::Le(4096)));
  EXPECT_EQ(json::parse(cut)["cut"], "true");
  EXPECT_FALSE(json::parse(cut).contains("text"));
  EXPECT_EQ(json::parse(limited)["message"], "a");
}

TEST(LogTest, CutsLongLines) {
  const std::string line = Logged([] {
    LogInfo("long", {{"text", std::string(5000, 'x')}});
  });
  EXPECT_THAT(line, SizeIs(testing::Le(4096)));
  EXPECT_THAT(line, HasSubstr(std::string(3900, 'x')));
  EXPECT_THAT(line, EndsWith(" bytes more)\n"));
}

TEST(LogTest, CountsWhatALimiterLeavesOut) {
  LogLimiter limiter;
  const uint64_t before = DroppedLogLines();
  const std::string text = Logged([&limiter] {
    for (int i = 0; i < LogLimiter::kLines + 5; ++i) {
      LogLimited(limiter, LogLevel::kInfo, absl::StrCat("line ", i));
    }
  });
  EXPECT_THAT(text, HasSubstr(absl::StrCat("line ", LogLimiter::kLines - 1)));
  EXPECT_THAT(
      text,
      testing::Not(HasSubstr(absl::StrCat("line ", LogLimiter::kLines, "\n"))));
  EXPECT_EQ(DroppedLogLines() - before, 5u);
}

TEST(LogLimiterTest, AdmitsSoManyLinesOfEachSpanAndTellsWhatItLeftOut) {
  LogLimiter limiter;
  LogLimiter::Time now{};
  for (int i = 0; i < LogLimiter::kLines; ++i)
    EXPECT_EQ(limiter.Admit(now), 0u);
  for (int i = 0; i < 7; ++i) EXPECT_EQ(limiter.Admit(now), std::nullopt);
  now += LogLimiter::kSpan - std::chrono::nanoseconds(1);
  EXPECT_EQ(limiter.Admit(now), std::nullopt);
  now += std::chrono::nanoseconds(1);
  EXPECT_EQ(limiter.Admit(now), 8u);
  for (int i = 1; i < LogLimiter::kLines; ++i)
    EXPECT_EQ(limiter.Admit(now), 0u);
  EXPECT_EQ(limiter.Admit(now), std::nullopt);
}

TEST(LogLimiterTest, ASpanBeginsWithItsFirstLine) {
  LogLimiter limiter;
  LogLimiter::Time now{};
  EXPECT_EQ(limiter.Admit(now), 0u);
  now += LogLimiter::kSpan * 3 / 2;
  for (int i = 0; i < LogLimiter::kLines; ++i)
    EXPECT_EQ(limiter.Admit(now), 0u);
  now += LogLimiter::kSpan * 3 / 4;
  EXPECT_EQ(limiter.Admit(now), std::nullopt);
}

}  // namespace
}  // namespace steadystate::logging_test
