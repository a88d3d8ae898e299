// Goal: a chunk of scalar decay is the recurrence, token by token, for every
// length, at any size, with decays from none to all, and what the delta rule
// writes in a chunk is what it writes token by token. Method: against the
// recurrences in double, outputs and states; long sequences against the step
// kernel.

#include "kernels/chunk/scalar_decay_chunk.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/tests/hwy_gtest.h"
#include "kernels/chunk/token_pairs.h"
#include "kernels/recurrence/decay_steps.h"
#include "tests/kernels/chunk/chunk_inputs.h"
#include "tests/kernels/chunk/delta_head.h"
#include "tests/kernels/numbers.h"
#include "tests/testing/recurrence_reference.h"

namespace steadystate::scalar_decay_chunk_test {
namespace {

constexpr float kScale = 0.25f;

class ScalarDecayChunkTest : public hwy::TestWithParamTarget {};
HWY_TARGET_INSTANTIATE_TEST_SUITE_P(ScalarDecayChunkTest);

// One head's inputs for some tokens.
struct Head {
  Head(size_t tokens_in, size_t K_in, size_t V_in, Temper temper,
       Numbers& numbers)
      : tokens(tokens_in),
        K(K_in),
        V(V_in),
        q(tokens, K, -1, 1, numbers),
        k(tokens, K, -1, 1, numbers),
        v(tokens, V, -1, 1, numbers),
        alpha(RandomDecays(tokens, 1, temper, numbers)) {}

  size_t tokens, K, V;
  TokenRows q, k, v, alpha;
};

// Tokens `first` and up, L of them, to o, f32[L, V].
void RunChunk(const Head& head, size_t first, size_t L, float* state,
              float* o) {
  Floats keys(head.K * kChunkTokens);
  Floats scores(kChunkTokens * kChunkTokens);
  Floats table(kFadingFloats);
  Floats weights(kWeightFloats);
  Floats faded(L * head.V);
  const Fading fading =
      ChunkFading(L, head.alpha.From(first), {}, table.data());
  TransposeKeys(L, head.K, head.k.From(first), keys.data());
  ChunkScores(L, head.K, head.q.From(first), keys.data(), scores.data());
  ReadScalarDecayChunk({.L = L,
                        .K = head.K,
                        .V = head.V,
                        .scale = kScale,
                        .fading = fading,
                        .q = head.q.From(first),
                        .v = head.v.From(first),
                        .scores = scores.data(),
                        .state = state,
                        .weights = weights.data(),
                        .o = o,
                        .o_stride = head.V});
  UpdateScalarDecayChunk({.L = L,
                          .K = head.K,
                          .V = head.V,
                          .fading = fading,
                          .k = head.k.From(first),
                          .v = head.v.From(first),
                          .state = state,
                          .faded = faded.data()});
}

void CompareWithReference(const Head& head, Numbers& numbers) {
  SCOPED_TRACE(testing::Message()
               << "L " << head.tokens << " K " << head.K << " V " << head.V);
  Floats state = numbers.Uniform(head.K * head.V, -1, 1);
  std::vector<double> exact_state(state.begin(), state.end());
  Floats o(head.tokens * head.V);
  RunChunk(head, 0, head.tokens, state.data(), o.data());
  std::vector<double> exact;
  for (size_t t = 0; t < head.tokens; ++t) {
    const std::vector<float> decay(head.K, head.alpha[t][0]);
    const auto row =
        KeyDecayReference(static_cast<double>(kScale), decay, head.q[t],
                          head.k[t], head.v[t], exact_state);
    exact.insert(exact.end(), row.begin(), row.end());
  }
  EXPECT_LE(RmsError(o, exact), 1e-6);
  EXPECT_LE(RmsError(state, exact_state), 1e-6);
}

TEST_P(ScalarDecayChunkTest, IsTheRecurrenceAtAnyLengthAndSize) {
  const uint64_t seed = 96;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  ForChunksOfAllKinds(
      kChunkTokens, [&numbers](Temper temper, size_t L, size_t K, size_t V) {
        CompareWithReference({L, K, V, temper, numbers}, numbers);
      });
}

TEST_P(ScalarDecayChunkTest, LongSequencesAgreeWithSteps) {
  const uint64_t seed = 97;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  const Head head(1000, 20, 24, Temper::kMild, numbers);
  Floats state(head.K * head.V);
  Floats stepped(head.K * head.V);
  Floats o(head.tokens * head.V);
  std::vector<double> steps(head.tokens * head.V);
  for (size_t t = 0; t < head.tokens; t += kChunkTokens) {
    RunChunk(head, t, std::min(kChunkTokens, head.tokens - t), state.data(),
             o.data() + t * head.V);
  }
  for (size_t t = 0; t < head.tokens; ++t) {
    const std::vector<float> decay(head.K, head.alpha[t][0]);
    std::vector<float> row(head.V);
    KeyDecayStep({.K = head.K,
                  .V = head.V,
                  .scale = kScale,
                  .q = head.q[t].data(),
                  .k = head.k[t].data(),
                  .v = head.v[t].data(),
                  .o = row.data()},
                 {decay.data()}, stepped.data());
    std::copy(row.begin(), row.end(),
              steps.begin() + static_cast<ptrdiff_t>(t * head.V));
  }
  EXPECT_LE(RmsError(o, steps), 1e-5);
}

TEST_P(ScalarDecayChunkTest, AFreshUpdateIsTheChunksOwnSum) {
  const uint64_t seed = 98;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  const Head head(9, 6, 21, Temper::kMild, numbers);
  Floats table(kFadingFloats);
  Floats faded(head.tokens * head.V);
  ScalarDecayUpdate update = {
      .L = head.tokens,
      .K = head.K,
      .V = head.V,
      .fading = ChunkFading(head.tokens, head.alpha.From(0), {}, table.data()),
      .k = head.k.From(0),
      .v = head.v.From(0),
      .faded = faded.data()};
  Floats from_zero(head.K * head.V);
  Floats fresh = numbers.Uniform(head.K * head.V, -1, 1);
  update.state = from_zero.data();
  UpdateScalarDecayChunk(update);
  update.state = fresh.data();
  update.fresh = true;
  UpdateScalarDecayChunk(update);
  for (size_t i = 0; i < fresh.size(); ++i) EXPECT_EQ(fresh[i], from_zero[i]);
}

TEST_P(ScalarDecayChunkTest, AReadAloneSeesTheStateAsItIs) {
  const uint64_t seed = 99;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  const Head head(7, 6, 21, Temper::kMild, numbers);
  const Floats state = numbers.Uniform(head.K * head.V, -1, 1);
  Floats o(head.tokens * head.V);
  ReadChunk(head.tokens, head.K, head.V, kScale, head.q.From(0), state.data(),
            o.data(), head.V);
  for (size_t t = 0; t < head.tokens; ++t) {
    for (size_t j = 0; j < head.V; ++j) {
      double sum = 0;
      for (size_t i = 0; i < head.K; ++i) {
        sum += static_cast<double>(head.q[t][i]) *
               static_cast<double>(state[i * head.V + j]);
      }
      EXPECT_NEAR(static_cast<double>(o[t * head.V + j]),
                  static_cast<double>(kScale) * sum, 1e-6);
    }
  }
}

class DeltaChunkTest : public hwy::TestWithParamTarget {};
HWY_TARGET_INSTANTIATE_TEST_SUITE_P(DeltaChunkTest);

void RunDeltaChunk(const DeltaHead& head, float* state, float* o) {
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

TEST_P(DeltaChunkTest, IsTheRuleAtAnyLengthAndSize) {
  const uint64_t seed = 103;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  ForChunksOfAllKinds(kChunkTokens,
                      [&numbers](Temper temper, size_t L, size_t K, size_t V) {
                        CompareWithDeltaRule({L, K, V, false, temper, numbers},
                                             RunDeltaChunk, numbers);
                      });
}

}  // namespace
}  // namespace steadystate::scalar_decay_chunk_test
