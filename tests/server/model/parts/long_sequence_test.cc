// Goal: sums over 10^6 tokens stay close to what exact arithmetic gives:
// counts, normalisers and the states that only grow. Method: the recurrence
// parts fed with random keys and values whose means are not zero, against
// doubles.
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "server/model/parts/gated_recurrence.h"
#include "server/model/parts/log_feature_recurrence.h"
#include "tests/testing/part_harness.h"

namespace steadystate::long_sequence_test {
namespace {

constexpr uint64_t kTokens = 1000000;
constexpr size_t kPiece = 1000;
constexpr size_t kKeys = 8, kValues = 8;
constexpr uint64_t kSeed = 11;

using Matrix = std::vector<double>;

// Positive features and values that lean to one side, as real ones do.
struct Stream {
  std::mt19937_64 random{kSeed};
  std::uniform_real_distribution<float> key{0.1f, 2.0f};
  std::uniform_real_distribution<float> value{-0.5f, 1.5f};
  std::vector<float> keys = std::vector<float>(kPiece * kKeys);
  std::vector<float> values = std::vector<float>(kPiece * kValues);

  void Next() {
    for (float& k : keys) k = key(random);
    for (float& v : values) v = value(random);
  }
};

CheckpointContents NoTensors() {
  return {.config = {{"model_type", "none"}}, .tensors = {}};
}

// S += k v^T and z += k over a piece, in double.
void Add(const Stream& stream, Matrix& S, Matrix& z) {
  for (size_t t = 0; t < kPiece; ++t) {
    for (size_t i = 0; i < kKeys; ++i) {
      const auto k = static_cast<double>(stream.keys[t * kKeys + i]);
      z[i] += k;
      for (size_t j = 0; j < kValues; ++j) {
        S[i * kValues + j] +=
            k * static_cast<double>(stream.values[t * kValues + j]);
      }
    }
  }
}

double RelativeError(const float* got, const Matrix& expected) {
  double error = 0, size = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    error += std::pow(static_cast<double>(got[i]) - expected[i], 2);
    size += expected[i] * expected[i];
  }
  return std::sqrt(error / size);
}

TEST(LongSequenceTest, NormalisedSumsOfAMillionTokensKeepSevenPlaces) {
  SCOPED_TRACE(kSeed);
  PartHarness harness(NoTensors());
  auto recurrence =
      GatedRecurrence::Make(harness.builder(), {.query_heads = 1,
                                                .state_heads = 1,
                                                .K = kKeys,
                                                .V = kValues,
                                                .normalizer_eps = 0.0f});
  ASSERT_TRUE(recurrence.ok()) << recurrence.status();
  harness.Start(kPiece);
  Stream stream;
  Matrix S(kKeys * kValues), z(kKeys);
  std::vector<float> out(kPiece * kValues);
  for (uint64_t done = 0; done < kTokens; done += kPiece) {
    stream.Next();
    const Segment segments[] = {harness.segment(done, kPiece)};
    const HeadRows keys = {stream.keys.data(), kKeys, kKeys};
    recurrence->Run(
        segments,
        {.q = keys, .k = keys, .v = {stream.values.data(), kValues, kValues}},
        out.data(), kValues, harness.buffers());
    Add(stream, S, z);
  }
  const float* q = stream.keys.data() + (kPiece - 1) * kKeys;
  Matrix expected(kValues);
  double weight = 0;
  for (size_t i = 0; i < kKeys; ++i) {
    weight += static_cast<double>(q[i]) * z[i];
    for (size_t j = 0; j < kValues; ++j) {
      expected[j] += static_cast<double>(q[i]) * S[i * kValues + j];
    }
  }
  for (double& o : expected) o /= weight;
  const double error =
      RelativeError(out.data() + (kPiece - 1) * kValues, expected);
  std::printf("after %llu tokens: %.1e\n",
              static_cast<unsigned long long>(kTokens), error);
  EXPECT_LE(error, 2e-7);
}

}  // namespace
}  // namespace steadystate::long_sequence_test
