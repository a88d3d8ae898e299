// Goal: what the delta rule writes in a chunk is what it writes token by token,
// for every length, at any size, with decays from none to all. Method: against
// the rule in double, its outputs and states.

#include "kernels/chunk/delta_chunk.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/tests/hwy_gtest.h"
#include "kernels/chunk/scalar_decay_chunk.h"
#include "kernels/chunk/scores.h"
#include "tests/kernels/chunk/chunk_inputs.h"
#include "tests/kernels/numbers.h"
#include "tests/testing/recurrence_reference.h"

namespace steadystate {
namespace {

class DeltaChunkTest : public hwy::TestWithParamTarget {};
HWY_TARGET_INSTANTIATE_TEST_SUITE_P(DeltaChunkTest);

// One head's inputs; keys of length 1 or less, as models have them.
struct Head {
  Head(size_t tokens_in, size_t K_in, size_t V_in, Temper temper,
       Numbers& numbers)
      : tokens(tokens_in),
        K(K_in),
        V(V_in),
        bound(1 / std::sqrt(static_cast<float>(K))),
        q(tokens, K, -bound, bound, numbers),
        k(tokens, K, -bound, bound, numbers),
        v(tokens, V, -1, 1, numbers),
        beta(tokens, 1, 0, 2, numbers),
        alpha(Decays(tokens, 1, temper, numbers)) {}

  size_t tokens, K, V;
  float bound;
  TokenRows q, k, v, beta, alpha;
};

void RunChunk(const Head& head, float* state, float* o) {
  const size_t L = head.tokens;
  Floats keys(head.K * kChunkTokens);
  Floats scores(kChunkTokens * kChunkTokens);
  Floats table(kFadingFloats);
  Floats weights(kWeightFloats);
  Floats u(L * head.V);
  Floats faded(L * head.V);
  const Fading fading = ChunkFading(L, head.alpha.From(0), {}, table.data());
  TransposeKeys(L, head.K, head.k.From(0), keys.data());
  ChunkScores(L, head.K, head.k.From(0), keys.data(), scores.data());
  SolveDeltaChunk({.L = L,
                   .K = head.K,
                   .V = head.V,
                   .fading = fading,
                   .k = head.k.From(0),
                   .v = head.v.From(0),
                   .beta = head.beta.From(0),
                   .key_scores = scores.data(),
                   .state = state,
                   .weights = weights.data(),
                   .u = u.data()});
  ChunkScores(L, head.K, head.q.From(0), keys.data(), scores.data());
  ReadScalarDecayChunk({.L = L,
                        .K = head.K,
                        .V = head.V,
                        .scale = 0.25f,
                        .fading = fading,
                        .q = head.q.From(0),
                        .v = {u.data(), head.V},
                        .scores = scores.data(),
                        .state = state,
                        .weights = weights.data(),
                        .o = o,
                        .o_stride = head.V});
  UpdateScalarDecayChunk({.L = L,
                          .K = head.K,
                          .V = head.V,
                          .fading = fading,
                          .k = head.k.From(0),
                          .v = {u.data(), head.V},
                          .state = state,
                          .faded = faded.data()});
}

void CompareWithReference(const Head& head, Numbers& numbers) {
  SCOPED_TRACE(testing::Message()
               << "L " << head.tokens << " K " << head.K << " V " << head.V);
  Floats state = numbers.Uniform(head.K * head.V, -1, 1);
  std::vector<double> exact_state(state.begin(), state.end());
  Floats o(head.tokens * head.V);
  RunChunk(head, state.data(), o.data());
  std::vector<double> exact;
  for (size_t t = 0; t < head.tokens; ++t) {
    const float beta = head.beta[t][0];
    std::vector<float> decay(head.K, head.alpha[t][0]);
    std::vector<float> a(head.K), b(head.K), written(head.K);
    for (size_t i = 0; i < head.K; ++i) {
      a[i] = decay[i] * head.k[t][i];
      written[i] = beta * head.k[t][i];
      b[i] = -written[i];
    }
    const auto row = RankOneDecayReference(0.25, decay, a, b, head.q[t],
                                           written, head.v[t], exact_state);
    exact.insert(exact.end(), row.begin(), row.end());
  }
  EXPECT_LE(RmsError(o, exact), 2e-6);
  EXPECT_LE(RmsError(state, exact_state), 2e-6);
}

TEST_P(DeltaChunkTest, IsTheRuleAtAnyLengthAndSize) {
  const uint64_t seed = 103;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  ForChunksOfAllKinds(
      kChunkTokens, [&numbers](Temper temper, size_t L, size_t K, size_t V) {
        CompareWithReference({L, K, V, temper, numbers}, numbers);
      });
}

}  // namespace
}  // namespace steadystate
