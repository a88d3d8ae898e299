// Goal: what tokens of a chunk have with each other is its formula: products of
// decays between any two tokens, and scores of queries with keys. Method:
// against products and sums in double, on every target.

#include "kernels/chunk/token_pairs.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/tests/hwy_gtest.h"
#include "tests/kernels/chunk/chunk_inputs.h"
#include "tests/kernels/numbers.h"

namespace steadystate::token_pairs_test {
namespace {

class FadingTest : public hwy::TestWithParamTarget {};
HWY_TARGET_INSTANTIATE_TEST_SUITE_P(FadingTest);

// factors[t] is the decay of token t.
void ExpectProducts(const Fading& fading, const std::vector<double>& factors) {
  const size_t L = factors.size();
  for (size_t i = 0; i < L; ++i) {
    const float* row =
        fading.between + static_cast<ptrdiff_t>(i) * fading.between_stride;
    double product = 1;
    for (size_t j = i + 1; j-- > 0; product *= factors[j]) {
      ASSERT_NEAR(static_cast<double>(row[j]), product, 4e-6 * product)
          << "from " << j << " to " << i << " of " << L;
      if (i + 1 == L) {
        ASSERT_EQ(fading.to_end[j], row[j]);
      }
    }
    ASSERT_NEAR(static_cast<double>(fading.from_start[i]), product,
                4e-6 * product);
    if (i + 1 == L) {
      const double all = static_cast<double>(fading.from_start[i]) +
                         static_cast<double>(fading.all_low);
      ASSERT_NEAR(all, product, 4e-15 * product + 1e-45);
    }
  }
}

TEST_P(FadingTest, IsTheProductOfTheDecays) {
  const uint64_t seed = 93;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  for (const Temper temper : {Temper::kMild, Temper::kOnes, Temper::kZeros}) {
    for (size_t L = 1; L <= kChunkTokens; ++L) {
      const TokenRows alpha = RandomDecays(L, 1, temper, numbers);
      std::vector<float> table(kFadingFloats);
      std::vector<double> factors;
      for (size_t t = 0; t < L; ++t) {
        factors.push_back(static_cast<double>(alpha[t][0]));
      }
      ExpectProducts(ChunkFading(L, alpha.From(0), {}, table.data()), factors);
    }
  }
}

TEST(PowersTest, MakeTheFadingOfAConstant) {
  for (const double factor : {0.0, 0.5, 1 - 1e-9, 1.0}) {
    SCOPED_TRACE(factor);
    std::vector<float> powers(kPowerFloats);
    FillPowers(factor, powers.data());
    for (size_t L = 1; L <= kChunkTokens; ++L) {
      ExpectProducts(FadingOfPowers(L, powers.data()),
                     std::vector<double>(L, factor));
    }
  }
}

class ScoresTest : public hwy::TestWithParamTarget {};
HWY_TARGET_INSTANTIATE_TEST_SUITE_P(ScoresTest);

TEST_P(ScoresTest, AreProductsOfQueriesAndKeys) {
  const uint64_t seed = 95;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  for (size_t L = 1; L <= kChunkTokens; ++L) {
    for (const size_t K : {size_t{1}, size_t{6}, size_t{37}}) {
      SCOPED_TRACE(testing::Message() << "L " << L << " K " << K);
      const TokenRows q(L, K, -1, 1, numbers);
      const TokenRows k(L, K, -1, 1, numbers);
      Floats keys(K * kChunkTokens);
      Floats scores(L * kChunkTokens);
      TransposeKeys(L, K, k.From(0), keys.data());
      ChunkScores(L, K, q.From(0), keys.data(), scores.data());
      for (size_t i = 0; i < L; ++i) {
        for (size_t j = 0; j <= i; ++j) {
          double sum = 0;
          for (size_t c = 0; c < K; ++c) {
            ASSERT_EQ(keys[c * kChunkTokens + j], k[j][c]);
            sum += static_cast<double>(q[i][c]) * static_cast<double>(k[j][c]);
          }
          ASSERT_NEAR(static_cast<double>(scores[i * kChunkTokens + j]), sum,
                      2e-7 * static_cast<double>(K));
        }
      }
    }
  }
}

}  // namespace
}  // namespace steadystate::token_pairs_test
