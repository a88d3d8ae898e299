// Goal: a short convolution weighs the last inputs of each channel, adds its
// bias, and remembers across calls. Method: random inputs against the sum in
// double, whole and token by token.
#include "server/model/parts/causal_conv.h"

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/part_harness.h"

namespace steadystate::causal_conv_test {
namespace {

constexpr uint64_t kSeed = 9;
constexpr size_t kChannels = 5, kTaps = 3, kRows = 8, kStride = 7;

std::vector<float> Random(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> number(-1, 1);
  std::vector<float> values(count);
  for (float& value : values) value = number(random);
  return values;
}

CheckpointContents Tensors(const std::string& name) {
  CheckpointContents contents = {.config = {{"model_type", "none"}},
                                 .tensors = {}};
  contents.tensors["attn." + name + ".weight"] = {
      .shape = {kChannels, 1, kTaps},
      .values = Random(kChannels * kTaps, kSeed)};
  contents.tensors["attn." + name + ".bias"] = {
      .shape = {kChannels}, .values = Random(kChannels, kSeed + 1)};
  return contents;
}

// silu of weighted sum and bias of channel c at row t.
double Expected(const CheckpointContents& contents, const std::string& name,
                const std::vector<float>& x, size_t t, size_t c, bool bias) {
  const auto& taps = contents.tensors.at("attn." + name + ".weight").values;
  const auto& biases = contents.tensors.at("attn." + name + ".bias").values;
  double sum = bias ? static_cast<double>(biases[c]) : 0;
  for (size_t w = 0; w < kTaps; ++w) {
    if (t + w + 1 < kTaps) continue;  // before the first token
    sum += static_cast<double>(taps[c * kTaps + w]) *
           static_cast<double>(x[(t + w + 1 - kTaps) * kStride + c]);
  }
  return sum / (1 + std::exp(-sum));
}

void ExpectConvolves(const std::string& part, const std::string& name,
                     Bias bias, size_t piece) {
  SCOPED_TRACE(kSeed);
  const CheckpointContents contents = Tensors(name);
  PartHarness harness(contents);
  const auto conv = CausalConv::Make(
      harness.builder(), part.empty() ? ConvNames() : ConvNames::Of(part),
      kChannels, kTaps, Activation::kSilu, bias);
  ASSERT_TRUE(conv.ok()) << conv.status();
  harness.Start(kRows);
  EXPECT_EQ(harness.layout().slots()[0].name,
            part.empty() ? "conv" : "conv_" + part);
  const std::vector<float> x = Random(kRows * kStride, kSeed + 2);
  std::vector<float> y = x;
  for (size_t row = 0; row < kRows; row += piece) {
    Segment segment = harness.segment(row, piece);
    segment.first_row = row;
    conv->Run(segment, 0, kChannels, y.data(), kStride);
  }
  for (size_t t = 0; t < kRows; ++t) {
    for (size_t c = 0; c < kChannels; ++c) {
      EXPECT_NEAR(static_cast<double>(y[t * kStride + c]),
                  Expected(contents, name, x, t, c, bias == Bias::kYes), 1e-6)
          << "row " << t << ", channel " << c;
    }
    for (size_t c = kChannels; c < kStride; ++c) {
      EXPECT_EQ(y[t * kStride + c], x[t * kStride + c]);
    }
  }
}

TEST(CausalConvTest, WeighsTheLastInputsOfAPart) {
  ExpectConvolves("q", "q_conv1d", Bias::kNone, kRows);
  ExpectConvolves("q", "q_conv1d", Bias::kYes, kRows);
}

TEST(CausalConvTest, TheOnlyOneOfALayerHasNoPart) {
  ExpectConvolves("", "conv1d", Bias::kYes, kRows);
}

TEST(CausalConvTest, RemembersAcrossCalls) {
  ExpectConvolves("", "conv1d", Bias::kYes, 1);
  ExpectConvolves("k", "k_conv1d", Bias::kNone, 2);
}

}  // namespace
}  // namespace steadystate::causal_conv_test
