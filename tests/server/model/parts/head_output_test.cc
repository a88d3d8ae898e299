// Goal: heads are normed and gated in the order that is asked for, with weights
// per head or shared. Method: one row against the formula in double.
#include "server/model/parts/head_output.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace steadystate {
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

TEST(HeadOutputTest, NormAndGateMayBeAbsent) {
  const std::vector<double> x(kOutputs.begin(), kOutputs.end());
  HeadOutput output = {
      .heads = kHeads, .V = kV, .norm = HeadOutput::NormKind::kNone};
  ExpectApplied(output, x);
  output.gate = Activation::kSilu;
  ExpectApplied(output, Gated(x));
}

}  // namespace
}  // namespace steadystate
