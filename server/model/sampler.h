#ifndef STEADYSTATE_SERVER_MODEL_SAMPLER_H_
#define STEADYSTATE_SERVER_MODEL_SAMPLER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace steadystate {

// The counter-based random generator Philox 4x32-10 (Salmon et al., "Parallel
// random numbers: as easy as 1, 2, 3", SC 2011): 128 random bits that are a
// function of counter and key.
constexpr std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter,
                                             std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// Most tokens back that penalties can look, and what a session remembers.
inline constexpr size_t kMaxPenaltyWindow = 256;
// Most alternatives that can be asked for with their log-probabilities.
inline constexpr size_t kMaxTopLogprobs = 256;
inline constexpr size_t kMaxLogitBiases = 1024;

// How the next token is drawn from logits. Applied in the order of the fields;
// the defaults change nothing.
struct SamplingParams {
  // Added to logits first. Ids are distinct.
  std::vector<std::pair<int32_t, float>> logit_bias;  // in [-100, 100]

  // Over the last `penalty_window` tokens of the session, prompt included.
  double repetition_penalty = 1;  // (0, 10]: logit/p if > 0, else logit*p
  double presence_penalty = 0;    // [-2, 2]: subtracted once per token seen
  double frequency_penalty = 0;   // [-2, 2]: times the count, subtracted
  uint32_t penalty_window = 64;   // [0, kMaxPenaltyWindow]

  double temperature = 1;         // [0, 100]; 0 takes the most likely token
  std::optional<uint32_t> top_k;  // >= 1; absent: all
  double top_p = 1;               // (0, 1]
  double min_p = 0;               // [0, 1]

  // Draws are a function of (seed, position): the same seed gives the same
  // token at the same position with the same logits, in any session.
  uint64_t seed = 0;
};

// How many of a session's latest tokens a draw looks at: none without
// penalties.
size_t RecentWanted(const SamplingParams& params);

struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0;  // natural logarithm
};

// Draws tokens; keeps scratch memory of the vocabulary's size.
// Thread-compatible.
class Sampler {
 public:
  // Tokens of `never`, distinct and not all there are, are neither drawn nor
  // among the most likely ones, whatever their logits. They outlive the object.
  explicit Sampler(size_t vocab_size, std::span<const int32_t> never = {});

  // Draws the token that follows.
  //   logits    f32[vocab_size]  in, left as it is
  //   recent    the session's latest tokens, oldest first; the last
  //             `penalty_window` of them count
  //   position  tokens absorbed so far
  // REQUIRES: valid params; finite logits.
  int32_t Sample(std::span<const float> logits, const SamplingParams& params,
                 std::span<const int32_t> recent, uint64_t position);

  // log softmax(logits)[token], of the model's own distribution: before biases,
  // penalties, temperature and cuts.
  static float Logprob(std::span<const float> logits, int32_t token);

  // The `count` most likely tokens of the model's own distribution, best first;
  // of equals the lower id first. `count` is cut to how many there are.
  std::vector<TokenLogprob> TopLogprobs(std::span<const float> logits,
                                        size_t count);

 private:
  // exp((logit - max) / temperature).
  static double Weight(const SamplingParams& params, float logit, float max);
  // Fills weights_, by token id.
  void WeighAll(const SamplingParams& params, float max);
  // Fills order_ and weights_ with the tokens left by top_k (`kept` of them),
  // top_p and min_p, best first.
  void WeighLikeliest(const SamplingParams& params, float max, size_t kept);
  // Lets none of never_ be the best in adjusted_.
  void RuleOut();
  // Cuts weights_ after the sum reaches `wanted`; false if it does not.
  bool CutAtTopP(double wanted);

  std::span<const int32_t> never_;
  std::vector<float> adjusted_;
  std::vector<int32_t> order_;
  std::vector<double> weights_;
};

// The uniform number in [0, 1) that Sample uses at `position` (a counter-based
// generator: Philox 4x32-10 of Salmon et al. 2011, key = seed, counter =
// position).
double UniformAt(uint64_t seed, uint64_t position);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_SAMPLER_H_
