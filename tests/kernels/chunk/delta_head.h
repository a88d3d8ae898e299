// The delta rule of one head over a chunk, with decays of either kind.

#ifndef STEADYSTATE_TESTS_KERNELS_CHUNK_DELTA_HEAD_H_
#define STEADYSTATE_TESTS_KERNELS_CHUNK_DELTA_HEAD_H_

#include <cmath>
#include <cstddef>
#include <vector>

#include "gtest/gtest.h"
#include "tests/kernels/chunk/chunk_inputs.h"
#include "tests/kernels/numbers.h"
#include "tests/testing/recurrence_reference.h"

namespace steadystate {

// One head's inputs; keys of length 1 or less, as models have them. A token has
// one decay, or one for each key channel.
struct DeltaHead {
  DeltaHead(size_t tokens_in, size_t K_in, size_t V_in, bool key_decay,
            Temper temper, Numbers& numbers)
      : tokens(tokens_in),
        K(K_in),
        V(V_in),
        bound(1 / std::sqrt(static_cast<float>(K))),
        decays(key_decay ? K : 1),
        q(tokens, K, -bound, bound, numbers),
        k(tokens, K, -bound, bound, numbers),
        v(tokens, V, -1, 1, numbers),
        beta(tokens, 1, 0, 2, numbers),
        alpha(RandomDecays(tokens, decays, temper, numbers)) {}

  size_t tokens, K, V;
  float bound;
  size_t decays;  // of a token
  TokenRows q, k, v, beta, alpha;
};

// What the rule gives of the head's tokens in double, f64[tokens, V]; `state`,
// f64[K, V], is advanced.
inline std::vector<double> DeltaRuleReference(const DeltaHead& head,
                                              double scale,
                                              std::vector<double>& state) {
  std::vector<double> o;
  for (size_t t = 0; t < head.tokens; ++t) {
    const float beta = head.beta[t][0];
    std::vector<float> decay(head.K), a(head.K), b(head.K), written(head.K);
    for (size_t i = 0; i < head.K; ++i) {
      decay[i] = head.alpha[t][head.decays == 1 ? 0 : i];
      a[i] = decay[i] * head.k[t][i];
      written[i] = beta * head.k[t][i];
      b[i] = -written[i];
    }
    const auto row = RankOneDecayReference(scale, decay, a, b, head.q[t],
                                           written, head.v[t], state);
    o.insert(o.end(), row.begin(), row.end());
  }
  return o;
}

// Expects of run(head, state, o), which takes all tokens as one chunk with a
// scale of 1/4, what the rule gives.
template <typename Run>
void CompareWithDeltaRule(const DeltaHead& head, const Run& run,
                          Numbers& numbers) {
  SCOPED_TRACE(testing::Message()
               << "L " << head.tokens << " K " << head.K << " V " << head.V);
  Floats state = numbers.Uniform(head.K * head.V, -1, 1);
  std::vector<double> exact_state(state.begin(), state.end());
  Floats o(head.tokens * head.V);
  run(head, state.data(), o.data());
  const auto exact = DeltaRuleReference(head, 0.25, exact_state);
  EXPECT_LE(RmsError(o, exact), 2e-6);
  EXPECT_LE(RmsError(state, exact_state), 2e-6);
}

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_KERNELS_CHUNK_DELTA_HEAD_H_
