// Goal: lengths are distributed as they say, within their bounds, and the same
// for each request whoever asks. Method: many draws, against the moments of the
// distribution.
#include "client/load/lengths.h"

#include <cmath>
#include <map>
#include <string>

#include "client/load/request_plan.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace steadystate::client::lengths_test {
namespace {

using testing::HasSubstr;

constexpr int kDraws = 100000;

Lengths Read(const std::string& text) { return Lengths::Parse(text).value(); }

std::string ErrorOf(const std::string& text) {
  return std::string(Lengths::Parse(text).status().message());
}

TEST(LengthsTest, ANumberIsThatNumber) {
  Random random(1, 1);
  const Lengths lengths = Read("128");
  EXPECT_EQ(lengths.Draw(random), 128u);
  EXPECT_EQ(lengths.ToString(), "128");
  EXPECT_EQ(lengths.mean(), 128);
}

TEST(LengthsTest, UniformLengthsHaveEachValueAsOften) {
  Random random(1, 1);
  const Lengths lengths = Read("uniform:3:7");
  std::map<uint64_t, int> counts;
  for (int i = 0; i < kDraws; ++i) ++counts[lengths.Draw(random)];
  ASSERT_EQ(counts.size(), 5u);
  EXPECT_EQ(counts.begin()->first, 3u);
  for (const auto& [length, count] : counts) {
    EXPECT_NEAR(count, kDraws / 5, 5 * std::sqrt(kDraws * 0.16)) << length;
  }
  EXPECT_EQ(lengths.ToString(), "uniform:3:7");
}

TEST(LengthsTest, LognormalLengthsHaveTheirMeanAndDeviation) {
  Random random(7, 1);
  const Lengths lengths = Read("lognormal:200:100:100000");
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const auto length = static_cast<double>(lengths.Draw(random));
    sum += length;
    squares += length * length;
  }
  const double mean = sum / kDraws;
  EXPECT_NEAR(mean, 200, 5 * 100 / std::sqrt(kDraws));
  EXPECT_NEAR(std::sqrt(squares / kDraws - mean * mean), 100, 3);
}

TEST(LengthsTest, LognormalLengthsKeepTheirBounds) {
  Random random(1, 1);
  const Lengths lengths = Read("lognormal:4:40");
  EXPECT_EQ(lengths.ToString(), "lognormal:4:40:40");
  bool least = false;
  bool most = false;
  for (int i = 0; i < kDraws; ++i) {
    const uint64_t length = lengths.Draw(random);
    ASSERT_GE(length, 1u);
    ASSERT_LE(length, 40u);
    least = least || length == 1;
    most = most || length == 40;
  }
  EXPECT_TRUE(least && most);
}

TEST(LengthsTest, WhatCannotBeMeantIsRefused) {
  for (const char* text :
       {"", "many", "-1", "uniform", "uniform:1", "uniform:1:2:3",
        "uniform:a:b", "lognormal:100", "lognormal:1:2:3:4", "normal:1:2"}) {
    EXPECT_THAT(ErrorOf(text), HasSubstr("is neither a number of tokens"))
        << text;
  }
  EXPECT_THAT(ErrorOf("uniform:5:4"), HasSubstr("LEAST"));
  EXPECT_THAT(ErrorOf("lognormal:0:5"), HasSubstr("MEAN"));
  EXPECT_THAT(ErrorOf("lognormal:nan:5"), HasSubstr("MEAN"));
  EXPECT_THAT(ErrorOf("lognormal:10:0"), HasSubstr("STDDEV above 0"));
  EXPECT_THAT(ErrorOf("lognormal:10:inf"), HasSubstr("STDDEV"));
  EXPECT_THAT(ErrorOf("lognormal:10:5:9"), HasSubstr("MOST"));
}

TEST(RequestPlanTest, TheSameSeedPlansTheSameWhoeverAsks) {
  LoadOptions options;
  options.prompt_tokens = Read("uniform:1:1000");
  options.generate_tokens = Read("lognormal:50:50");
  const RequestPlan plan(options);
  const RequestPlan same(options);
  int differences = 0;
  for (uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(plan.Of(i).prompt_tokens, same.Of(i).prompt_tokens);
    EXPECT_EQ(plan.Of(i).generate_tokens, same.Of(i).generate_tokens);
    differences +=
        plan.Of(i).prompt_tokens != plan.Of(i + 1).prompt_tokens ? 1 : 0;
  }
  EXPECT_GT(differences, 90);
  EXPECT_EQ(plan.most_tokens(), 1500u);
  EXPECT_EQ(plan.mean_prompt_tokens(), 500.5);
}

TEST(RequestPlanTest, PromptsAreTakenInTurn) {
  LoadOptions options;
  const RequestPlan plan(options, {{1, 2, 3}, {4}});
  EXPECT_EQ(plan.Of(0).prompt_tokens, 3u);
  EXPECT_EQ(plan.Of(1).prompt_tokens, 1u);
  EXPECT_EQ(plan.Of(2).prompt, plan.Of(0).prompt);
  EXPECT_EQ(plan.most_tokens(), 3u + 32u);
  EXPECT_EQ(plan.mean_prompt_tokens(), 2);
}

}  // namespace
}  // namespace steadystate::client::lengths_test
