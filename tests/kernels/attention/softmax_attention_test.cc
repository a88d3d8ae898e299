// Softmax attention against the double formula, on every target.

#include "kernels/attention/softmax_attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/tests/hwy_gtest.h"
#include "tests/kernels/numbers.h"

namespace steadystate::softmax_attention_test {
namespace {

class SoftmaxAttentionTest : public hwy::TestWithParamTarget {};
HWY_TARGET_INSTANTIATE_TEST_SUITE_P(SoftmaxAttentionTest);

struct Cache {
  size_t d;
  size_t n;
  size_t stride;
  Floats keys;    // exactly (n - 1) * stride + d elements
  Floats values;  // likewise
};

Cache RandomCache(size_t d, size_t n, size_t stride, Numbers& numbers) {
  const size_t size = (n - 1) * stride + d;
  return {d, n, stride, numbers.Uniform(size, -1.0f, 1.0f),
          numbers.Uniform(size, -1.0f, 1.0f)};
}

std::vector<double> ExactAttention(const Cache& cache, double scale,
                                   const Floats& q) {
  std::vector<double> scores(cache.n, 0.0);
  for (size_t j = 0; j < cache.n; ++j) {
    for (size_t c = 0; c < cache.d; ++c) {
      scores[j] += scale * static_cast<double>(q[c]) *
                   static_cast<double>(cache.keys[j * cache.stride + c]);
    }
  }
  const double max = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  std::vector<double> o(cache.d, 0.0);
  for (size_t j = 0; j < cache.n; ++j) {
    const double weight = std::exp(scores[j] - max);
    sum += weight;
    for (size_t c = 0; c < cache.d; ++c) {
      o[c] += weight * static_cast<double>(cache.values[j * cache.stride + c]);
    }
  }
  for (double& value : o) value /= sum;
  return o;
}

void Compare(const Cache& cache, float scale, Numbers& numbers) {
  SCOPED_TRACE(testing::Message() << "d " << cache.d << " n " << cache.n
                                  << " stride " << cache.stride);
  const Floats q = numbers.Uniform(cache.d, -1.0f, 1.0f);
  Floats scratch(StepScratch(1));
  Floats o(cache.d);
  SoftmaxAttentionStep({.d = cache.d,
                        .n = cache.n,
                        .stride = cache.stride,
                        .keys = cache.keys.data(),
                        .values = cache.values.data()},
                       {.scale = scale, .q = q.data(), .o = o.data()},
                       scratch.data());
  const std::vector<double> exact =
      ExactAttention(cache, static_cast<double>(scale), q);
  for (size_t c = 0; c < cache.d; ++c) {
    EXPECT_NEAR(static_cast<double>(o[c]), exact[c], 1e-5) << c;
  }
}

TEST_P(SoftmaxAttentionTest, MatchesTheFormulaForEveryWidthAndLength) {
  const uint64_t seed = 61;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  for (size_t n = 1; n <= 35; ++n) {
    Compare(RandomCache(5, n, 5, numbers), 0.5f, numbers);
    Compare(RandomCache(n, 7, n + 3, numbers), 0.5f, numbers);
  }
  Compare(RandomCache(64, 1000, 192, numbers), 0.125f, numbers);
  Compare(RandomCache(130, 301, 130, numbers), 3.0f, numbers);
}

TEST_P(SoftmaxAttentionTest, Golden) {
  const float q[][2] = {{0.5f, -1.0f}, {1.5f, 0.25f}, {-0.75f, 2.0f}};
  const float keys[] = {1.0f, 0.5f, -0.5f, 1.25f, 0.25f, -2.0f};
  const float values[] = {1.0f, 2.0f, -1.0f, 0.5f, 3.0f, -0.25f};
  const double golden[][2] = {
      {1.0, 2.0}, {0.622578, 1.716934}, {-0.707958, 0.697175}};
  for (size_t t = 0; t < 3; ++t) {
    float scratch[StepScratch(1)];
    float o[2];
    SoftmaxAttentionStep(
        {.d = 2, .n = t + 1, .stride = 2, .keys = keys, .values = values},
        {.scale = std::sqrt(0.5f), .q = q[t], .o = o}, scratch);
    EXPECT_NEAR(static_cast<double>(o[0]), golden[t][0], 2e-6) << t;
    EXPECT_NEAR(static_cast<double>(o[1]), golden[t][1], 2e-6) << t;
  }
}

TEST_P(SoftmaxAttentionTest, HugeScoresDoNotOverflow) {
  const float q[] = {1.0f};
  const float keys[] = {1e30f, -1e30f, 1e30f};
  const float values[] = {2.0f, 100.0f, 4.0f};
  float scratch[StepScratch(1)];
  float o = 0;
  SoftmaxAttentionStep(
      {.d = 1, .n = 3, .stride = 1, .keys = keys, .values = values},
      {.scale = 1e5f, .q = q, .o = &o}, scratch);
  EXPECT_EQ(o, 3.0f);
}

// Whatever is seen later may weigh more than all before it, or less.
TEST_P(SoftmaxAttentionTest, ScoresThatRiseOrFallFromRowToRow) {
  const size_t n = 5 * kRowsAtOnce + 3;
  for (const float slope : {-40.0f, -0.2f, 0.2f, 40.0f}) {
    SCOPED_TRACE(slope);
    Cache cache = {1, n, 1, Floats(n), Floats(n)};
    for (size_t j = 0; j < n; ++j) {
      cache.keys[j] = slope * static_cast<float>(j);
      cache.values[j] = static_cast<float>(j % 7) - 3.0f;
    }
    Floats q(1);
    q[0] = 1;
    Floats scratch(StepScratch(1));
    float o = 0;
    SoftmaxAttentionStep({.d = 1,
                          .n = n,
                          .stride = 1,
                          .keys = cache.keys.data(),
                          .values = cache.values.data()},
                         {.q = q.data(), .o = &o}, scratch.data());
    EXPECT_NEAR(static_cast<double>(o), ExactAttention(cache, 1, q)[0], 1e-5);
  }
}

// The same cache with its elements rounded to bf16, and as bf16.
std::vector<uint16_t> Round(Floats& values) {
  std::vector<uint16_t> rounded(values.size());
  ConvertToBf16(values.size(), values.data(), rounded.data());
  ConvertToF32({rounded.data(), DType::kBf16}, 0, values.size(), values.data());
  return rounded;
}

// Some key heads side by side, each read by some queries.
struct Heads {
  Heads(size_t width, size_t kv, size_t queries_each, size_t rows,
        Numbers& numbers)
      : d(width),
        kv_heads(kv),
        group(queries_each),
        cache(RandomCache(kv * width, rows, kv * width + 2, numbers)),
        keys(Round(cache.keys)),
        values(Round(cache.values)),
        q(numbers.Uniform(kv * queries_each * width, -1.0f, 1.0f)) {}

  // Of the key heads from `first` on.
  KeyValueRows Rows(DType dtype, size_t first) const {
    KeyValueRows rows = {.d = d,
                         .n = cache.n,
                         .stride = cache.stride,
                         .dtype = dtype,
                         .keys = cache.keys.data() + first * d,
                         .values = cache.values.data() + first * d};
    if (dtype == DType::kBf16) {
      rows.keys = keys.data() + first * d;
      rows.values = values.data() + first * d;
    }
    return rows;
  }

  // What all queries get in one call.
  Floats Together(DType dtype) const {
    Floats scratch(StepScratch(kv_heads * group));
    Floats o(kv_heads * group * d);
    SoftmaxAttentionStep(Rows(dtype, 0),
                         {.kv_heads = kv_heads,
                          .group = group,
                          .scale = 0.7f,
                          .q = q.data(),
                          .o = o.data()},
                         scratch.data());
    return o;
  }

  // What each gets in a call of its own.
  Floats Alone() const {
    Floats scratch(StepScratch(1));
    Floats o(kv_heads * group * d);
    for (size_t h = 0; h < kv_heads * group; ++h) {
      SoftmaxAttentionStep(
          Rows(DType::kF32, h / group),
          {.scale = 0.7f, .q = q.data() + h * d, .o = o.data() + h * d},
          scratch.data());
    }
    return o;
  }

  size_t d, kv_heads, group;
  Cache cache;
  std::vector<uint16_t> keys, values;
  Floats q;
};

TEST_P(SoftmaxAttentionTest, HeadsTogetherAreAsEachAloneInEitherType) {
  const uint64_t seed = 62;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  for (const size_t d : {1u, 5u, 16u, 40u, 67u, 128u}) {
    for (const size_t group : {1u, 2u, 3u, 4u, 6u, 9u}) {
      for (const size_t kv_heads : {1u, 3u}) {
        for (const size_t n : {1u, 21u, 50u}) {
          SCOPED_TRACE(testing::Message()
                       << d << " " << group << " " << kv_heads << " " << n);
          const Heads heads(d, kv_heads, group, n, numbers);
          const Floats alone = heads.Alone();
          EXPECT_TRUE(std::ranges::equal(heads.Together(DType::kF32), alone));
          EXPECT_TRUE(std::ranges::equal(heads.Together(DType::kBf16), alone));
        }
      }
    }
  }
}

}  // namespace
}  // namespace steadystate::softmax_attention_test
