// Goal: heads are rotated by their token's position in its session, whatever
// else the batch holds and however many threads share it. Method: both layouts
// against the formula in double.
#include "server/model/parts/query_key.h"

#include <cmath>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/part_harness.h"

namespace steadystate::query_key_test {
namespace {

using Pairs = RotaryRows::Pairs;

constexpr size_t kHeads = 3, kWidth = 6;
constexpr size_t kStride = kHeads * kWidth + 2;  // two columns of others
constexpr double kBase = 100;
constexpr uint64_t kSeed = 5;

CheckpointContents OneKey() {
  return {.config = {{"head_k_dim", 5}}, .tensors = {}};
}

std::vector<float> RandomRows(size_t rows) {
  std::mt19937_64 random(kSeed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> x(rows * kStride);
  for (float& value : x) value = uniform(random);
  return x;
}

// Expects head `x` of `position` to have become `y`.
void ExpectRotated(uint64_t position, Pairs pairs, const float* x,
                   const float* y) {
  const size_t half = kWidth / 2;
  for (size_t i = 0; i < half; ++i) {
    const size_t first = pairs == Pairs::kHalves ? i : 2 * i;
    const size_t second = pairs == Pairs::kHalves ? i + half : 2 * i + 1;
    const double exponent =
        -2.0 * static_cast<double>(i) / static_cast<double>(kWidth);
    const double angle =
        static_cast<double>(position) * std::pow(kBase, exponent);
    const auto x1 = static_cast<double>(x[first]);
    const auto x2 = static_cast<double>(x[second]);
    EXPECT_NEAR(static_cast<double>(y[first]),
                x1 * std::cos(angle) - x2 * std::sin(angle), 5e-7);
    EXPECT_NEAR(static_cast<double>(y[second]),
                x1 * std::sin(angle) + x2 * std::cos(angle), 5e-7);
  }
}

// Three sessions of which one has just begun and one is old.
void Check(Pairs pairs, size_t threads) {
  PartHarness harness(OneKey());
  auto rotary = RotaryRows::Make(
      harness.builder(),
      {.heads = kHeads, .d = kWidth, .base = kBase, .pairs = pairs},
      "head_k_dim");
  ASSERT_TRUE(rotary.ok()) << rotary.status();
  harness.Start(16, threads);
  const Segment segments[] = {{.position = 10000000, .first_row = 0, .rows = 4},
                              {.position = 0, .first_row = 4, .rows = 1},
                              {.position = 77, .first_row = 5, .rows = 11}};
  const std::vector<float> x = RandomRows(16);
  std::vector<float> y = x;
  rotary->Run(segments, y.data(), kStride, harness.buffers());
  for (const Segment& segment : segments) {
    for (size_t t = 0; t < segment.rows; ++t) {
      const size_t row = segment.first_row + t;
      for (size_t head = 0; head < kHeads; ++head) {
        const size_t at = row * kStride + head * kWidth;
        ExpectRotated(segment.position + t, pairs, &x[at], &y[at]);
      }
      EXPECT_EQ(y[(row + 1) * kStride - 1], x[(row + 1) * kStride - 1]);
      EXPECT_EQ(y[(row + 1) * kStride - 2], x[(row + 1) * kStride - 2]);
    }
  }
}

TEST(RotaryRowsTest, RotatesByThePositionInTheSession) {
  SCOPED_TRACE(kSeed);
  for (const size_t threads : {1u, 2u, 5u}) {
    Check(Pairs::kHalves, threads);
    Check(Pairs::kInterleaved, threads);
  }
}

TEST(RotaryRowsTest, ASingleTokenIsRotatedAlike) {
  SCOPED_TRACE(kSeed);
  PartHarness harness(OneKey());
  auto rotary = RotaryRows::Make(
      harness.builder(), {.heads = kHeads, .d = kWidth, .base = kBase}, "");
  ASSERT_TRUE(rotary.ok()) << rotary.status();
  harness.Start(2, 2);
  std::vector<float> together = RandomRows(2);
  std::vector<float> apart = together;
  const Segment both[] = {{.position = 9, .first_row = 0, .rows = 2}};
  rotary->Run(both, together.data(), kStride, harness.buffers());
  for (size_t row = 0; row < 2; ++row) {
    const Segment one[] = {{.position = 9 + row, .first_row = row, .rows = 1}};
    rotary->Run(one, apart.data(), kStride, harness.buffers());
  }
  EXPECT_EQ(apart, together);
}

// A share of a head turns as a narrower head would; the rest of it stays.
TEST(RotaryRowsTest, TheRestOfAHeadStays) {
  SCOPED_TRACE(kSeed);
  constexpr size_t kRotated = kWidth - 2;
  PartHarness harness(OneKey());
  auto share = RotaryRows::Make(
      harness.builder(),
      {.heads = kHeads, .d = kWidth, .rotated = kRotated, .base = kBase}, "");
  auto narrow = RotaryRows::Make(
      harness.builder(), {.heads = 1, .d = kRotated, .base = kBase}, "");
  ASSERT_TRUE(share.ok() && narrow.ok());
  harness.Start(1, 1);
  const std::vector<float> x = RandomRows(1);
  std::vector<float> y = x;
  std::vector<float> expected = x;
  const Segment one[] = {{.position = 77, .first_row = 0, .rows = 1}};
  share->Run(one, y.data(), kStride, harness.buffers());
  for (size_t head = 0; head < kHeads; ++head) {
    narrow->Run(one, expected.data() + head * kWidth, kStride,
                harness.buffers());
  }
  EXPECT_EQ(y, expected);
  EXPECT_NE(y, x);
}

TEST(RotaryRowsTest, OddWidthsAreRefused) {
  PartHarness harness(OneKey());
  const auto rotary =
      RotaryRows::Make(harness.builder(), {.heads = 1, .d = 5}, "head_k_dim");
  EXPECT_EQ(rotary.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(rotary.status().message(),
              testing::HasSubstr("head_k_dim is 5; keys of 5 channels"));
}

}  // namespace
}  // namespace steadystate::query_key_test
