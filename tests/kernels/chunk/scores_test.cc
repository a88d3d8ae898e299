// Goal: scores are the products of queries and the keys before them. Method:
// against sums in double, for every length of a chunk.

#include "kernels/chunk/scores.h"

#include <vector>

#include "gtest/gtest.h"
#include "hwy/tests/hwy_gtest.h"
#include "tests/kernels/chunk/chunk_inputs.h"
#include "tests/kernels/numbers.h"

namespace steadystate {
namespace {

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
}  // namespace steadystate
