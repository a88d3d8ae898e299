// Goal: tokens are drawn from the distribution that the parameters describe,
// the same ones everywhere. Method: published vectors of the generator, cuts by
// hand, and frequencies against probabilities.
#include "server/model/sampler.h"

#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/error.h"

namespace steadystate::sampler_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

// Logits whose softmax is p.
std::vector<float> LogitsOf(const std::vector<double>& p) {
  std::vector<float> logits;
  for (const double x : p) logits.push_back(static_cast<float>(std::log(x)));
  return logits;
}

std::map<int32_t, int> Draws(const std::vector<float>& logits,
                             SamplingParams params, int count,
                             const std::vector<int32_t>& recent = {}) {
  Sampler sampler(logits.size());
  std::map<int32_t, int> draws;
  for (int position = 0; position < count; ++position) {
    ++draws[sampler.Sample(logits, params, recent,
                           static_cast<uint64_t>(position))];
  }
  return draws;
}

std::vector<int32_t> Drawn(const std::vector<float>& logits,
                           const SamplingParams& params,
                           const std::vector<int32_t>& recent = {}) {
  std::vector<int32_t> tokens;
  for (const auto& [token, count] : Draws(logits, params, 2000, recent)) {
    tokens.push_back(token);
  }
  return tokens;
}

// kat_vectors of Random123, philox4x32 with 10 rounds.
TEST(PhiloxTest, AgreesWithThePublishedVectors) {
  EXPECT_THAT(Philox4x32({0, 0, 0, 0}, {0, 0}),
              ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_THAT(Philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                         {0xa4093822, 0x299f31d0}),
              ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

TEST(UniformTest, IsAFunctionOfSeedAndPosition) {
  // From the first vector: 0xe169c58d6627e8d5 >> 11, times 2^-53.
  EXPECT_EQ(UniformAt(0, 0), 0x1.c2d38b1acc4fdp-1);
  EXPECT_EQ(UniformAt(7, 1), UniformAt(7, 1));
  EXPECT_NE(UniformAt(7, 1), UniformAt(7, 2));
  EXPECT_NE(UniformAt(7, 1), UniformAt(8, 1));
  EXPECT_NE(UniformAt(uint64_t{7} << 32, 1), UniformAt(7, 1));
  double sum = 0;
  for (uint64_t i = 0; i < 10000; ++i) {
    const double u = UniformAt(42, i);
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
  }
  EXPECT_NEAR(sum / 10000, 0.5, 0.02);
}

TEST(SamplerTest, TemperatureZeroTakesTheFirstLargest) {
  SamplingParams params;
  params.temperature = 0;
  Sampler sampler(4);
  EXPECT_EQ(sampler.Sample(std::vector<float>{1, 3, 3, 2}, params, {}, 0), 1);
}

TEST(SamplerTest, FrequenciesFollowTheSoftmax) {
  const std::vector<double> p = {0.5, 0.1, 0.25, 0.15};
  const auto draws = Draws(LogitsOf(p), {}, 20000);
  for (size_t i = 0; i < p.size(); ++i) {
    EXPECT_NEAR(draws.at(static_cast<int32_t>(i)) / 20000.0, p[i], 0.015);
  }
}

TEST(SamplerTest, TemperatureSharpens) {
  SamplingParams params;
  params.temperature = 0.5;  // squares the probabilities
  const auto draws = Draws(LogitsOf({0.75, 0.25}), params, 20000);
  EXPECT_NEAR(draws.at(0) / 20000.0, 0.9, 0.01);
}

TEST(SamplerTest, FrequenciesAreKeptAmongWhatTheCutsLeave) {
  SamplingParams params;
  params.top_k = 2;
  const auto draws = Draws(LogitsOf({0.3, 0.1, 0.6}), params, 20000);
  EXPECT_EQ(draws.count(1), 0u);
  EXPECT_NEAR(draws.at(2) / 20000.0, 0.6 / 0.9, 0.015);
}

TEST(SamplerTest, TopKTakesTheLowerIdOfEquals) {
  SamplingParams params;
  params.top_k = 2;
  EXPECT_THAT(Drawn({1, 2, 1, 1}, params), UnorderedElementsAre(0, 1));
  params.top_k = 100;
  EXPECT_THAT(Drawn({1, 2, 1, 1}, params), UnorderedElementsAre(0, 1, 2, 3));
}

TEST(SamplerTest, TopPTakesTheSmallestSetThatReachesIt) {
  const std::vector<float> logits = LogitsOf({0.125, 0.5, 0.125, 0.25});
  SamplingParams params;
  params.top_p = 0.5;
  EXPECT_THAT(Drawn(logits, params), UnorderedElementsAre(1));
  params.top_p = 0.51;
  EXPECT_THAT(Drawn(logits, params), UnorderedElementsAre(1, 3));
  params.top_p = 0.8;
  EXPECT_THAT(Drawn(logits, params), UnorderedElementsAre(0, 1, 3));
  params.top_p = 0.999;
  EXPECT_THAT(Drawn(logits, params), UnorderedElementsAre(0, 1, 2, 3));
}

TEST(SamplerTest, TopPAlwaysKeepsOne) {
  SamplingParams params;
  params.top_p = 1e-9;
  EXPECT_THAT(Drawn({0, 0, 0}, params), ElementsAre(0));
}

TEST(SamplerTest, TopPCountsAmongWhatTopKLeft) {
  SamplingParams params;
  params.top_k = 2;
  params.top_p = 0.6;  // of 0.4 + 0.3 the first alone has 0.57
  EXPECT_THAT(Drawn(LogitsOf({0.4, 0.3, 0.3}), params),
              UnorderedElementsAre(0, 1));
  params.top_p = 0.55;
  EXPECT_THAT(Drawn(LogitsOf({0.4, 0.3, 0.3}), params), ElementsAre(0));
}

// Beyond what is sorted at first.
TEST(SamplerTest, TopPReachesFarIntoAFlatDistribution) {
  SamplingParams params;
  params.top_p = 0.5;
  const std::vector<float> flat(4096, 1.0f);
  const std::vector<int32_t> drawn = Drawn(flat, params);
  EXPECT_GT(drawn.size(), 500u);
  EXPECT_LT(drawn.back(), 2049);
}

TEST(SamplerTest, MinPIsRelativeToTheBest) {
  SamplingParams params;
  params.min_p = 0.45;
  EXPECT_THAT(Drawn(LogitsOf({0.1, 0.5, 0.15, 0.25}), params),
              UnorderedElementsAre(1, 3));
  params.min_p = 1;
  EXPECT_THAT(Drawn({1, 2, 2, 0}, params), UnorderedElementsAre(1, 2));
  params.top_k = 3;
  params.min_p = 0.45;
  EXPECT_THAT(Drawn(LogitsOf({0.1, 0.5, 0.15, 0.25}), params),
              UnorderedElementsAre(1, 3));
}

TEST(SamplerTest, BiasesAndPenaltiesComeFirst) {
  SamplingParams params;
  params.temperature = 0;
  const std::vector<float> logits = {1, 2, 3, -1};
  Sampler sampler(4);
  params.logit_bias = {{3, 10.0f}};
  EXPECT_EQ(sampler.Sample(logits, params, {}, 0), 3);
  params.logit_bias.clear();

  params.repetition_penalty = 2;  // 3 / 2 < 2
  EXPECT_EQ(sampler.Sample(logits, params, std::vector<int32_t>{2}, 0), 1);
  params.repetition_penalty = 1;

  params.presence_penalty = 1.5;  // once, however often it was seen
  EXPECT_EQ(sampler.Sample(logits, params, std::vector<int32_t>{2, 2}, 0), 1);
  params.presence_penalty = 0.9;
  EXPECT_EQ(sampler.Sample(logits, params, std::vector<int32_t>{2, 2}, 0), 2);
  params.presence_penalty = 0;

  params.frequency_penalty = 0.6;  // for each time
  EXPECT_EQ(sampler.Sample(logits, params, std::vector<int32_t>{2}, 0), 2);
  EXPECT_EQ(sampler.Sample(logits, params, std::vector<int32_t>{2, 0, 2}, 0),
            1);
}

TEST(SamplerTest, LooksAtRecentTokensForPenaltiesOnly) {
  SamplingParams params;
  params.penalty_window = 7;
  EXPECT_EQ(RecentWanted(params), 0u);
  for (double SamplingParams::*const penalty :
       {&SamplingParams::repetition_penalty, &SamplingParams::presence_penalty,
        &SamplingParams::frequency_penalty}) {
    SamplingParams penalised = params;
    penalised.*penalty = 0.5;
    EXPECT_EQ(RecentWanted(penalised), 7u);
  }
}

TEST(SamplerTest, ARepetitionPenaltyMovesNegativeLogitsDown) {
  SamplingParams params;
  params.temperature = 0;
  params.repetition_penalty = 3;
  Sampler sampler(2);
  const std::vector<float> logits = {-1, -2};
  EXPECT_EQ(sampler.Sample(logits, params, std::vector<int32_t>{0}, 0), 1);
}

TEST(SamplerTest, ATinyRepetitionPenaltyLeavesADraw) {
  SamplingParams params;
  params.repetition_penalty = 1e-40;  // 5 / 1e-40 is beyond a float
  Sampler sampler(3);
  const std::vector<float> logits = {0, 0, 5};
  EXPECT_EQ(sampler.Sample(logits, params, std::vector<int32_t>{2}, 0), 2);
}

TEST(SamplerTest, OnlyTheWindowCounts) {
  SamplingParams params;
  params.temperature = 0;
  params.presence_penalty = 2;
  params.penalty_window = 2;
  Sampler sampler(3);
  const std::vector<float> logits = {0, 0, 1};
  EXPECT_EQ(sampler.Sample(logits, params, std::vector<int32_t>{2, 0, 0}, 0),
            2);
  EXPECT_EQ(sampler.Sample(logits, params, std::vector<int32_t>{0, 2, 0}, 0),
            1);
  params.penalty_window = 0;
  EXPECT_EQ(sampler.Sample(logits, params, std::vector<int32_t>{2}, 0), 2);
}

TEST(SamplerTest, LogitsAreLeftAsTheyAre) {
  SamplingParams params;
  params.logit_bias = {{0, 5.0f}};
  params.presence_penalty = 1;
  params.top_p = 0.9;
  const std::vector<float> before = {1, 2, 3};
  std::vector<float> logits = before;
  Sampler sampler(3);
  sampler.Sample(logits, params, std::vector<int32_t>{1}, 0);
  EXPECT_EQ(logits, before);
}

TEST(SamplerTest, FarApartLogitsAreDrawnWithoutTrouble) {
  SamplingParams params;
  params.temperature = 1e-6;
  const float top = std::numeric_limits<float>::max();
  EXPECT_THAT(Drawn({-top, top, 0}, params), ElementsAre(1));
  params.temperature = 100;
  params.top_p = 0.5;
  EXPECT_THAT(Drawn({-top, top, 0}, params), ElementsAre(1));
}

// Whatever a client asks for: 1 and 3 are the likeliest here.
TEST(SamplerTest, SomeTokensAreNeverDrawn) {
  const std::vector<float> logits = {0, 30, 1, 40};
  const std::vector<int32_t> never = {1, 3};
  std::vector<SamplingParams> all(8);
  all[0].temperature = 0;
  all[1].temperature = 100;
  all[2].top_k = 3;
  all[3].top_p = 0.9;
  all[4].min_p = 0.01;
  all[5].logit_bias = {{1, 100}, {3, 100}};
  all[6].repetition_penalty = 10;
  all[7].presence_penalty = -2;
  Sampler sampler(logits.size(), never);
  const std::vector<int32_t> recent = {3, 1, 3};
  for (size_t i = 0; i < all.size(); ++i) {
    std::map<int32_t, int> draws;
    for (uint64_t position = 0; position < 200; ++position) {
      ++draws[sampler.Sample(logits, all[i], recent, position)];
    }
    EXPECT_EQ(draws[1] + draws[3], 0) << i;
    EXPECT_GT(draws[2], draws[0]) << i;
    if (i != 0) {
      EXPECT_GT(draws[0], 0) << i;
    }
  }
  const std::vector<TokenLogprob> top = sampler.TopLogprobs(logits, 4);
  ASSERT_EQ(top.size(), 2u);
  EXPECT_EQ(top[0].token, 2);
  EXPECT_EQ(top[1].token, 0);
  // Of the model's own distribution, which has them.
  EXPECT_EQ(top[0].logprob, Sampler::Logprob(logits, 2));
  EXPECT_NEAR(static_cast<double>(top[0].logprob), -39, 1e-3);
}

TEST(LogprobTest, IsOfTheModelsOwnDistribution) {
  const std::vector<float> logits = LogitsOf({0.5, 0.125, 0.25, 0.125});
  EXPECT_NEAR(static_cast<double>(Sampler::Logprob(logits, 2)), std::log(0.25),
              1e-6);
  Sampler sampler(4);
  const std::vector<TokenLogprob> top = sampler.TopLogprobs(logits, 3);
  ASSERT_EQ(top.size(), 3u);
  EXPECT_EQ(top[0].token, 0);
  EXPECT_EQ(top[1].token, 2);
  EXPECT_EQ(top[2].token, 1);  // of equals the lower id
  EXPECT_EQ(top[1].logprob, Sampler::Logprob(logits, 2));
  EXPECT_EQ(sampler.TopLogprobs(logits, 100).size(), 4u);
  EXPECT_TRUE(sampler.TopLogprobs(logits, 0).empty());
}

}  // namespace
}  // namespace steadystate::sampler_test
