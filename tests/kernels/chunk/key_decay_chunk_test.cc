// Goal: a chunk of key decay, with and without a bonus, is the recurrence,
// token by token, for every length, at any size, with decays from none to all.
// Method: against the recurrence in double; long sequences against the step
// kernel.

#include "kernels/chunk/key_decay_chunk.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/tests/hwy_gtest.h"
#include "kernels/recurrence/decay_steps.h"
#include "tests/kernels/chunk/chunk_inputs.h"
#include "tests/kernels/chunk/delta_head.h"
#include "tests/kernels/numbers.h"
#include "tests/testing/recurrence_reference.h"

namespace steadystate::key_decay_chunk_test {
namespace {

class KeyDecayChunkTest : public hwy::TestWithParamTarget {};
HWY_TARGET_INSTANTIATE_TEST_SUITE_P(KeyDecayChunkTest);

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
        alpha(RandomDecays(tokens, K, temper, numbers)),
        bonus(numbers.Uniform(K, -1, 1)) {}

  size_t tokens, K, V;
  TokenRows q, k, v, alpha;
  Floats bonus;
};

// What a chunk is read and updated with beside its head's inputs.
struct ChunkOfHead {
  size_t L;
  size_t first;        // of the head's tokens
  ChunkRows v;         // f32[L, V]
  const float* bonus;  // null: none
  float* state;        // in/out
};

// Reads a chunk to o, f32[L, V], and updates its state.
template <typename HeadT>
void ReadAndUpdate(const HeadT& head, const ChunkOfHead& chunk, float* o) {
  Floats scratch(std::max(KeyReadFloats(head.K), KeyUpdateFloats(head.K)));
  ReadKeyDecayChunk({.L = chunk.L,
                     .K = head.K,
                     .V = head.V,
                     .scale = chunk.bonus == nullptr ? 0.25f : 1.0f,
                     .alpha = head.alpha.From(chunk.first),
                     .q = head.q.From(chunk.first),
                     .k = head.k.From(chunk.first),
                     .v = chunk.v,
                     .bonus = chunk.bonus,
                     .state = chunk.state,
                     .scratch = scratch.data(),
                     .o = o,
                     .o_stride = head.V});
  UpdateKeyDecayChunk({.L = chunk.L,
                       .K = head.K,
                       .V = head.V,
                       .alpha = head.alpha.From(chunk.first),
                       .k = head.k.From(chunk.first),
                       .v = chunk.v,
                       .state = chunk.state,
                       .scratch = scratch.data()});
}

// Tokens `first` and up, L of them, to o, f32[L, V].
void RunChunk(const Head& head, size_t first, size_t L, const float* bonus,
              float* state, float* o) {
  ReadAndUpdate(head, {L, first, head.v.From(first), bonus, state}, o);
}

void CompareWithReference(const Head& head, bool bonus, Numbers& numbers) {
  SCOPED_TRACE(testing::Message() << "L " << head.tokens << " K " << head.K
                                  << " V " << head.V << " bonus " << bonus);
  Floats state = numbers.Uniform(head.K * head.V, -1, 1);
  std::vector<double> exact_state(state.begin(), state.end());
  Floats o(head.tokens * head.V);
  RunChunk(head, 0, head.tokens, bonus ? head.bonus.data() : nullptr,
           state.data(), o.data());
  std::vector<double> exact;
  for (size_t t = 0; t < head.tokens; ++t) {
    const auto row =
        bonus ? BonusDecayReference(head.alpha[t], head.bonus, head.q[t],
                                    head.k[t], head.v[t], exact_state)
              : KeyDecayReference(0.25, head.alpha[t], head.q[t], head.k[t],
                                  head.v[t], exact_state);
    exact.insert(exact.end(), row.begin(), row.end());
  }
  EXPECT_LE(RmsError(o, exact), 1e-6);
  EXPECT_LE(RmsError(state, exact_state), 1e-6);
}

TEST_P(KeyDecayChunkTest, IsTheRecurrenceAtAnyLengthAndSize) {
  const uint64_t seed = 101;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  for (const bool bonus : {false, true}) {
    const auto compare = [&numbers, bonus](Temper temper, size_t L, size_t K,
                                           size_t V) {
      CompareWithReference({L, K, V, temper, numbers}, bonus, numbers);
    };
    ForChunksOfAllKinds(kKeyChunkTokens, compare);
    for (const Temper temper : kTempers) {
      for (size_t L = 1; L <= kKeyChunkTokens; ++L) compare(temper, L, 37, 3);
    }
  }
}

TEST_P(KeyDecayChunkTest, LongSequencesAgreeWithSteps) {
  const uint64_t seed = 102;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  const Head head(1000, 20, 24, Temper::kMild, numbers);
  Floats state(head.K * head.V);
  Floats stepped(head.K * head.V);
  Floats o(head.tokens * head.V);
  std::vector<double> steps(head.tokens * head.V);
  for (size_t t = 0; t < head.tokens; t += kKeyChunkTokens) {
    RunChunk(head, t, std::min(kKeyChunkTokens, head.tokens - t), nullptr,
             state.data(), o.data() + t * head.V);
  }
  for (size_t t = 0; t < head.tokens; ++t) {
    std::vector<float> row(head.V);
    KeyDecayStep({.K = head.K,
                  .V = head.V,
                  .scale = 0.25f,
                  .q = head.q[t].data(),
                  .k = head.k[t].data(),
                  .v = head.v[t].data(),
                  .o = row.data()},
                 {head.alpha[t].data()}, stepped.data());
    std::copy(row.begin(), row.end(),
              steps.begin() + static_cast<ptrdiff_t>(t * head.V));
  }
  EXPECT_LE(RmsError(o, steps), 1e-5);
}

class KeyDecayDeltaTest : public hwy::TestWithParamTarget {};
HWY_TARGET_INSTANTIATE_TEST_SUITE_P(KeyDecayDeltaTest);

void RunDelta(const DeltaHead& head, float* state, float* o) {
  const size_t L = head.tokens;
  Floats scratch(std::max(KeyReadFloats(head.K), KeyUpdateFloats(head.K)));
  Floats u(L * head.V);
  SolveKeyDecayDelta({.L = L,
                      .K = head.K,
                      .V = head.V,
                      .alpha = head.alpha.From(0),
                      .k = head.k.From(0),
                      .v = head.v.From(0),
                      .beta = head.beta.From(0),
                      .state = state,
                      .scratch = scratch.data(),
                      .u = u.data()});
  ReadAndUpdate(head, {L, 0, {u.data(), head.V}, nullptr, state}, o);
}

TEST_P(KeyDecayDeltaTest, IsTheRuleAtAnyLengthAndSize) {
  const uint64_t seed = 104;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  ForChunksOfAllKinds(kKeyChunkTokens, [&numbers](Temper temper, size_t L,
                                                  size_t K, size_t V) {
    CompareWithDeltaRule({L, K, V, true, temper, numbers}, RunDelta, numbers);
  });
}

}  // namespace
}  // namespace steadystate::key_decay_chunk_test
