#ifndef STEADYSTATE_TESTS_SERVER_ENGINE_SIMULATION_PAST_H_
#define STEADYSTATE_TESTS_SERVER_ENGINE_SIMULATION_PAST_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/thread_pool.h"
#include "server/model/model.h"
#include "server/model/sampler.h"
#include "server/model/workspace.h"

namespace steadystate {

// What a session has absorbed, with its cuts, and what the model makes of that:
// one piece and those before it. Immutable; many sessions share one.
struct Past {
  std::shared_ptr<const Past> before{};  // null at position 0
  uint64_t position = 0;                 // after the piece
  std::vector<int32_t> tokens{};         // of the piece; -1: an embedding
  std::vector<float> embeddings{};       // f32[rows, D], or none
  bool drawn = false;                    // not given
  std::vector<float> state{};            // the model's, after the piece
  std::vector<float> hidden{};           // f32[rows, D] of the piece
};
using PastPtr = std::shared_ptr<const Past>;

// Computes pasts straight on the model. Thread-compatible.
class Reference {
 public:
  // The model outlives it.
  Reference(const Model& model, size_t piece_rows);

  const PastPtr& begin() const { return begin_; }
  size_t piece_rows() const { return piece_rows_; }
  size_t hidden_size() const { return model_.description().hidden_size; }

  // One piece more. `embeddings`: f32[n, D] in place of tokens.
  PastPtr Absorb(const PastPtr& before, std::vector<int32_t> tokens,
                 const std::vector<float>& embeddings = {}, bool drawn = false);

  // f32[V] after the last row; f32[rows, V] after each.
  std::vector<float> Logits(const Past& past);
  std::vector<float> AllLogits(const Past& past);

  // The token that follows.
  int32_t Draw(const PastPtr& past, const SamplingParams& params);
  Sampler& sampler() { return sampler_; }

 private:
  const Model& model_;
  const size_t piece_rows_;
  ThreadPool pool_;
  Workspace workspace_;
  AlignedFloats state_;
  const size_t state_floats_;
  Sampler sampler_;
  PastPtr begin_;
};

// The last `count` inputs at most, oldest first. Embeddings are left out, or
// are -1.
std::vector<int32_t> LatestTokens(const Past& past, size_t count,
                                  bool with_embeddings);

// The past as it was at `position`, which is not behind it: where the position
// lies within a piece, of the beginning of that.
PastPtr PastAt(Reference& reference, const PastPtr& past, uint64_t position);

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_SERVER_ENGINE_SIMULATION_PAST_H_
