// Goal: heads are normed and gated in the order that is asked for, with weights
// per head or shared. Method: one row against the formula in double.
#include "server/model/parts/heads.h"

#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/part_harness.h"

namespace steadystate::heads_test {
namespace {

constexpr size_t kHeads = 2, kV = 3;
constexpr double kEps = 0.1;

const std::vector<float> kOutputs = {1, -2, 0.5f, 3, 0.25f, -1};
const std::vector<float> kGates = {0.5f, -1, 2, 1, -3, 0.75f};
const std::vector<float> kWeights = {1, 2, 0.5f, -1, 3, 0.25f};

double Silu(double x) { return x / (1 + std::exp(-x)); }

// RMSNorm of each head by itself, with kWeights over all channels.
std::vector<double> Normed(const std::vector<double>& x) {
  std::vector<double> y(x.size());
  for (size_t h = 0; h < kHeads; ++h) {
    double sum = 0;
    for (size_t j = 0; j < kV; ++j) sum += x[h * kV + j] * x[h * kV + j];
    const double rms = std::sqrt(sum / kV + kEps);
    for (size_t j = 0; j < kV; ++j) {
      const size_t i = h * kV + j;
      y[i] = x[i] / rms * static_cast<double>(kWeights[i]);
    }
  }
  return y;
}

std::vector<double> Gated(std::vector<double> x) {
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] *= Silu(static_cast<double>(kGates[i]));
  }
  return x;
}

void ExpectApplied(const HeadOutput& output,
                   const std::vector<double>& expected) {
  std::vector<float> o = kOutputs;
  output.Apply(o.data(), kGates.data());
  for (size_t i = 0; i < o.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(o[i]), expected[i], 1e-6) << i;
  }
}

TEST(HeadOutputTest, TheGateComesAfterTheNormOrBeforeIt) {
  const std::vector<double> x(kOutputs.begin(), kOutputs.end());
  HeadOutput output = {.heads = kHeads,
                       .V = kV,
                       .eps = static_cast<float>(kEps),
                       .weight = kWeights,
                       .gate = Activation::kSilu};
  ExpectApplied(output, Gated(Normed(x)));
  output.gate_first = true;
  ExpectApplied(output, Normed(Gated(x)));
}

TEST(HeadOutputTest, GoldenNormThenSilu) {
  HeadOutput output = {.heads = 1,
                       .V = 4,
                       .eps = 1e-6f,
                       .weight = {1, 1, 2, 0.5f},
                       .gate = Activation::kSilu};
  float o[] = {1, -2, 0.5f, 3};
  const float gates[] = {0.5f, 1, -1, 2};
  const double golden[] = {0.164893, -0.774648, -0.142489, 1.399973};
  output.Apply(o, gates);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(static_cast<double>(o[i]), golden[i], 1e-6) << i;
  }
}

TEST(HeadOutputTest, NormAndGateMayBeAbsent) {
  const std::vector<double> x(kOutputs.begin(), kOutputs.end());
  HeadOutput output = {
      .heads = kHeads, .V = kV, .norm = HeadOutput::NormKind::kNone};
  ExpectApplied(output, x);
  output.gate = Activation::kSilu;
  ExpectApplied(output, Gated(x));
}

// Goal: heads are as wide as the version of the library made them that wrote
// the checkpoint, and bad widths are refused by name. Method: shapes alone.

using testing::HasSubstr;

// In double 100 times 0.29 is 28.999999999999996, and 100 times 0.57 is
// 56.99999999999999.
constexpr size_t kD = 100;

// The shape of a layer with these tensors.
absl::StatusOr<HeadShape> ReadWith(size_t heads, size_t keys, size_t values,
                                   const nlohmann::json& expand_k = 0.29) {
  const auto zeros = [](std::vector<size_t> shape) {
    return TensorContents{.shape = shape,
                          .values = std::vector<float>(shape[0] * shape[1])};
  };
  const PartHarness harness(
      {.config = {{"model_type", "none"},
                  {"num_heads", heads},
                  {"expand_k", expand_k},
                  {"expand_v", 0.57}},
       .tensors = {{"attn.q_proj.weight", zeros({keys, kD})},
                   {"attn.o_proj.weight", zeros({kD, values})}}},
      kD);
  return ReadHeadShape(harness.builder(), {});
}

TEST(HeadShapeTest, WidthsAreRoundedWhereTheTensorsAre) {
  const auto shape = ReadWith(1, 29, 57);
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->K, 29u);
  EXPECT_EQ(shape->V, 57u);
}

TEST(HeadShapeTest, WidthsAreCutOffWhereTheTensorsAre) {
  const auto shape = ReadWith(2, 28, 56);
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->K, 14u);
  EXPECT_EQ(shape->V, 28u);
}

TEST(HeadShapeTest, EachWidthHasATensorOfItsOwn) {
  const auto shape = ReadWith(1, 28, 57);
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->K, 28u);
  EXPECT_EQ(shape->V, 57u);
}

TEST(HeadShapeTest, WhatIsNearNoWholeNumberIsCutOff) {
  const auto shape = ReadWith(1, 30, 57, 0.296);
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->K, 29u);
}

TEST(HeadShapeTest, WidthsThatHeadsDoNotDivideAreRefused) {
  const auto shape = ReadWith(2, 29, 56);
  EXPECT_EQ(shape.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(shape.status().message(), HasSubstr("expand_k is 0.29"));
  EXPECT_THAT(shape.status().message(), HasSubstr("multiple of num_heads, 2"));
}

}  // namespace
}  // namespace steadystate::heads_test
