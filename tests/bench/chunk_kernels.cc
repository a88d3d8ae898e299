#include "tests/bench/chunk_kernels.h"

#include <algorithm>

#include "kernels/chunk/key_decay_chunk.h"
#include "kernels/chunk/scalar_decay_chunk.h"
#include "kernels/chunk/token_pairs.h"
#include "kernels/recurrence/growing_sum.h"

namespace steadystate::bench {
namespace {

// What every token reads of the state and leaves in it, and what it sees of the
// chunk's own tokens up to itself.
double SumsFlop(double L, double K, double V) {
  return 4 * L * K * V + L * (L + 1) * (K + V);
}

// Besides: what the state has under each key, and the triangular system.
double DeltaFlop(double L, double K, double V) {
  return SumsFlop(L, K, V) + 2 * L * K * V + L * (L + 1) * (K + V);
}

double ScoresFlop(double L, double K, double /*V*/) { return L * (L + 1) * K; }

// A factor for each pair of tokens, and one for each from the start.
double FadingFlop(double L, double /*K*/, double /*V*/) {
  return L * (L + 1) / 2;
}

// Faded and added to; to round the state is counted as one, too.
double GrowingStateFlop(double /*L*/, double K, double V) { return 3 * K * V; }

void Scores(ChunkInputs& in, const std::vector<float>& queries) {
  ChunkScores(kChunkTokens, in.K, {queries.data(), in.K}, in.keys.data(),
              in.scores.data());
}

// Reads and updates with `v` in the place of the values.
void ScalarChunk(ChunkInputs& in, const Fading& fading,
                 const std::vector<float>& v) {
  Scores(in, in.q);
  ReadScalarDecayChunk({.L = kChunkTokens,
                        .K = in.K,
                        .V = in.V,
                        .scale = 1.0f,
                        .fading = fading,
                        .q = {in.q.data(), in.K},
                        .v = {v.data(), in.V},
                        .scores = in.scores.data(),
                        .state = in.state.data(),
                        .weights = in.weights.data(),
                        .o = in.o.data(),
                        .o_stride = in.V});
  UpdateScalarDecayChunk({.L = kChunkTokens,
                          .K = in.K,
                          .V = in.V,
                          .fading = fading,
                          .k = {in.k.data(), in.K},
                          .v = {v.data(), in.V},
                          .state = in.state.data(),
                          .faded = in.faded.data()});
}

void Transpose(ChunkInputs& in) {
  TransposeKeys(kChunkTokens, in.K, {in.k.data(), in.K}, in.keys.data());
}

Fading Fade(ChunkInputs& in) {
  return ChunkFading(kChunkTokens, {in.alpha.data(), 1}, {}, in.fading.data());
}

Fading Begin(ChunkInputs& in) {
  Transpose(in);
  return Fade(in);
}

void RunScores(ChunkInputs& in) {
  Transpose(in);
  Scores(in, in.q);
}

void RunGrowingState(ChunkInputs& in) {
  constexpr double kKept = 0.5;
  NarrowState(in.growing.size(), in.growing.data(), in.state.data());
  AddToState(in.growing.size(), kKept, in.added.data(), in.growing.data());
}

void RunScalarDecay(ChunkInputs& in) { ScalarChunk(in, Begin(in), in.v); }

// Reads and updates with `v` in the place of the values.
void RunKeyDecay(ChunkInputs& in, const std::vector<float>& v,
                 const float* bonus) {
  ReadKeyDecayChunk({.L = kKeyChunkTokens,
                     .K = in.K,
                     .V = in.V,
                     .scale = 1.0f,
                     .alpha = {in.alpha.data(), in.K},
                     .q = {in.q.data(), in.K},
                     .k = {in.k.data(), in.K},
                     .v = {v.data(), in.V},
                     .bonus = bonus,
                     .state = in.state.data(),
                     .scratch = in.key_decays.data(),
                     .o = in.o.data(),
                     .o_stride = in.V});
  UpdateKeyDecayChunk({.L = kKeyChunkTokens,
                       .K = in.K,
                       .V = in.V,
                       .alpha = {in.alpha.data(), in.K},
                       .k = {in.k.data(), in.K},
                       .v = {v.data(), in.V},
                       .state = in.state.data(),
                       .scratch = in.key_decays.data()});
}

void RunDelta(ChunkInputs& in) {
  const Fading fading = Begin(in);
  Scores(in, in.k);
  SolveDeltaChunk({.L = kChunkTokens,
                   .K = in.K,
                   .V = in.V,
                   .fading = fading,
                   .k = {in.k.data(), in.K},
                   .v = {in.v.data(), in.V},
                   .beta = {in.beta.data(), 1},
                   .key_scores = in.scores.data(),
                   .state = in.state.data(),
                   .weights = in.weights.data(),
                   .u = in.u.data()});
  ScalarChunk(in, fading, in.u);
}

// The same with a decay per key channel.
void RunKeyDelta(ChunkInputs& in) {
  SolveKeyDecayDelta({.L = kKeyChunkTokens,
                      .K = in.K,
                      .V = in.V,
                      .alpha = {in.alpha.data(), in.K},
                      .k = {in.k.data(), in.K},
                      .v = {in.v.data(), in.V},
                      .beta = {in.beta.data(), 1},
                      .state = in.state.data(),
                      .scratch = in.key_decays.data(),
                      .u = in.u.data()});
  RunKeyDecay(in, in.u, nullptr);
}

constexpr ChunkKernel kChunkKernels[] = {
    {"ScalarDecay", kChunkTokens, SumsFlop, RunScalarDecay},
    {"KeyDecay", kKeyChunkTokens, SumsFlop,
     [](ChunkInputs& in) { RunKeyDecay(in, in.v, nullptr); }},
    {"KeyDecay, bonus", kKeyChunkTokens, SumsFlop,
     [](ChunkInputs& in) { RunKeyDecay(in, in.v, in.q.data()); }},
    {"Delta", kChunkTokens, DeltaFlop, RunDelta},
    {"Delta, key decay", kKeyChunkTokens, DeltaFlop, RunKeyDelta},
    {"Scores", kChunkTokens, ScoresFlop, RunScores},
    {"Fading", kChunkTokens, FadingFlop, [](ChunkInputs& in) { Fade(in); }},
    {"Growing state", kChunkTokens, GrowingStateFlop, RunGrowingState},
};

constexpr size_t kMost = std::max(kChunkTokens, kKeyChunkTokens);

}  // namespace

ChunkInputs::ChunkInputs(size_t key_width, size_t value_width)
    : K(key_width),
      V(value_width),
      alpha(kMost * K, 0.99f),
      q(kMost * K, 0.5f),
      // Of a length below 1, as the delta rule needs.
      k(kMost * K, 0.01f),
      v(kMost * V, 0.125f),
      beta(kMost, 0.5f),
      state(K * V),
      growing(K * V),
      added(K * V, 0.125f),
      o(kMost * V),
      u(kMost * V),
      faded(kMost * V),
      keys(K * kChunkTokens),
      scores(kChunkTokens * kChunkTokens),
      fading(kFadingFloats),
      weights(kWeightFloats),
      key_decays(std::max(KeyReadFloats(K), KeyUpdateFloats(K))) {}

std::span<const ChunkKernel> ChunkKernels() { return kChunkKernels; }

}  // namespace steadystate::bench
