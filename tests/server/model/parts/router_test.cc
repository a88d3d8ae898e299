// Goal: experts are chosen and weighed as the formulas of router.cc say, each
// at most once whatever the products are, and rows do not see each other.
// Method: products given by hand, and rows alone against rows together.
#include "server/model/parts/router.h"

#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/part_harness.h"

namespace steadystate::router_test {
namespace {

using testing::ElementsAre;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr size_t kD = 8;

// A router whose matrix has random rows, and its bias.
CheckpointContents Tensors(size_t experts, const std::vector<float>& bias) {
  std::mt19937_64 random(11);
  std::uniform_real_distribution<float> uniform(-1, 1);
  CheckpointContents contents = {.config = {{"hidden_size", kD}},
                                 .tensors = {}};
  const auto add = [&](const char* name, size_t rows) {
    std::vector<float> values(rows * kD);
    for (float& value : values) value = uniform(random);
    contents.tensors[name] = {.shape = {rows, kD}, .values = values};
  };
  add("attn.gate.weight", experts);
  add("attn.shared.weight", 1);
  contents.tensors["attn.bias"] = {.shape = {experts}, .values = bias};
  return contents;
}

// What is chosen where the products are these.
std::vector<Chosen> Choose(const RouterOptions& options,
                           std::vector<float> products,
                           const std::vector<float>& bias = {}) {
  RouterOptions with = options;
  with.experts = products.size();
  if (!bias.empty()) with.bias = "bias";
  const PartHarness harness(
      Tensors(with.experts,
              bias.empty() ? std::vector<float>(with.experts) : bias),
      kD);
  const auto router = Router::Make(harness.builder(), with);
  EXPECT_TRUE(router.ok()) << router.status();
  std::vector<float> biased(with.experts);
  std::vector<Chosen> chosen(with.chosen);
  router->Choose(products.data(), biased.data(), chosen.data());
  return chosen;
}

std::vector<uint32_t> Experts(const std::vector<Chosen>& chosen) {
  std::vector<uint32_t> experts;
  for (const Chosen& of : chosen) experts.push_back(of.expert);
  return experts;
}

TEST(RouterTest, SoftmaxIsOverAllAndDividedByTheSumOfThoseChosen) {
  const auto chosen = Choose({.chosen = 2}, {std::log(1.0F), std::log(5.0F),
                                             std::log(3.0F), std::log(1.0F)});
  EXPECT_THAT(Experts(chosen), ElementsAre(1, 2));
  EXPECT_NEAR(chosen[0].weight, 5.0F / 8, 1e-6F);
  EXPECT_NEAR(chosen[1].weight, 3.0F / 8, 1e-6F);
  const auto plain =
      Choose({.chosen = 2, .divided_with = -1, .factor = 2},
             {std::log(1.0F), std::log(5.0F), std::log(3.0F), std::log(1.0F)});
  EXPECT_NEAR(plain[0].weight, 1.0F, 1e-6F);
  EXPECT_NEAR(plain[1].weight, 0.6F, 1e-6F);
}

TEST(RouterTest, ABiasChoosesAndDoesNotWeigh) {
  const auto sigmoid = [](float x) { return 1 / (1 + std::exp(-x)); };
  const auto chosen = Choose({.chosen = 2,
                              .scores = RouterOptions::Scores::kSigmoid,
                              .divided_with = 0.5F,
                              .factor = 3},
                             {1, 2, -3, 0}, {0, -1, 5, 0});
  EXPECT_THAT(Experts(chosen), ElementsAre(0, 2));
  const float sum = sigmoid(1) + sigmoid(-3) + 0.5F;
  EXPECT_NEAR(chosen[0].weight, 3 * sigmoid(1) / sum, 1e-6F);
  EXPECT_NEAR(chosen[1].weight, 3 * sigmoid(-3) / sum, 1e-6F);
}

TEST(RouterTest, OfEqualScoresTheLowerExpertIsTaken) {
  EXPECT_THAT(Experts(Choose({.chosen = 3}, {0, 1, 0, 1, 0, 0})),
              ElementsAre(0, 1, 3));
}

TEST(RouterTest, OnlyTheBestGroupsAreChosenFrom) {
  // Of pairs the sums are 9, 8, 10 and 7: the best expert's is the worst.
  const std::vector<float> bias = {5, 4, 4, 4, 5, 5, 7, 0};
  EXPECT_THAT(Experts(Choose({.chosen = 3,
                              .scores = RouterOptions::Scores::kSigmoid,
                              .groups = 4,
                              .groups_kept = 2},
                             std::vector<float>(8), bias)),
              ElementsAre(0, 4, 5));
}

TEST(RouterTest, WhateverTheProductsAreEachExpertIsChosenOnce) {
  for (const float bad : {kNaN, kInfinity, -kInfinity}) {
    for (const size_t groups : {size_t{1}, size_t{2}}) {
      for (const RouterOptions::Scores scores :
           {RouterOptions::Scores::kSoftmax, RouterOptions::Scores::kSigmoid}) {
        for (const std::vector<float>& products :
             {std::vector<float>{bad, 1, 2, bad}, {bad, bad, bad, bad}}) {
          const auto chosen = Choose({.chosen = 2,
                                      .scores = scores,
                                      .groups = groups,
                                      .groups_kept = 1},
                                     products);
          EXPECT_LT(chosen[0].expert, chosen[1].expert);
          EXPECT_LT(chosen[1].expert, 4u);
        }
      }
    }
  }
}

TEST(RouterTest, ARowIsRoutedAsIfItWereAlone) {
  constexpr size_t kRows = 37;
  constexpr size_t kExperts = 21;
  constexpr size_t kChosen = 4;
  PartHarness harness(Tensors(kExperts, std::vector<float>(kExperts)), kD);
  auto router = Router::Make(
      harness.builder(),
      {.experts = kExperts, .chosen = kChosen, .shared_gate = "shared.weight"});
  ASSERT_TRUE(router.ok()) << router.status();
  RowScratchPlan plan(harness.builder().scratch);
  router->Plan(plan);
  harness.Start(kRows, 2);
  std::mt19937_64 random(12);
  std::uniform_real_distribution<float> uniform(-2, 2);
  std::vector<float> x(kRows * kD);
  for (float& value : x) value = uniform(random);
  std::vector<Chosen> together(kRows * kChosen);
  std::vector<float> gates(kRows);
  router->Route(kRows, x.data(), together.data(), gates.data(),
                harness.buffers());
  std::set<uint32_t> seen;
  for (size_t row = 0; row < kRows; ++row) {
    std::vector<Chosen> alone(kChosen);
    float gate = 0;
    router->Route(1, x.data() + row * kD, alone.data(), &gate,
                  harness.buffers());
    EXPECT_EQ(gate, gates[row]);
    for (size_t i = 0; i < kChosen; ++i) {
      EXPECT_EQ(alone[i].expert, together[row * kChosen + i].expert);
      EXPECT_EQ(alone[i].weight, together[row * kChosen + i].weight);
      seen.insert(alone[i].expert);
    }
  }
  EXPECT_GT(seen.size(), kExperts / 2);
}

}  // namespace
}  // namespace steadystate::router_test
