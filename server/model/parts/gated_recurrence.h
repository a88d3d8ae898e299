#ifndef STEADYSTATE_SERVER_MODEL_PARTS_GATED_RECURRENCE_H_
#define STEADYSTATE_SERVER_MODEL_PARTS_GATED_RECURRENCE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/chunk/token_pairs.h"
#include "kernels/recurrence/step.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"
#include "server/model/parts/head_matrices.h"
#include "server/model/parts/heads.h"
#include "server/model/state_layout.h"
#include "server/model/workspace.h"

namespace steadystate {

// How the past fades, for each state head.
enum class Decay : uint8_t {
  kNone,     // not at all
  kScalar,   // one factor
  kKey,      // a factor per key channel: alpha 1^T
  kValue,    // a factor per value channel: 1 beta^T
  kOuter,    // alpha beta^T
  kFull,     // exp(-beta_v rate_{kv}): beta >= 0 per token, rate constant
  kComplex,  // a complex factor per key channel; the state is complex
};

// The recursive form that most families share, for all heads of a layer:
//   S_t = G_t o S_{t-1} + k_t v_t^T,   o_t = scale S_t^T q_t
// with a decay G of any of the kinds above, optionally
//   z_t = G_t o z_{t-1} + k_t,   o_t <- o_t / (scale q_t . z_t + eps)
// and optionally with the readout before the update (RWKV-6):
//   o_t = scale (S_{t-1} + diag(bonus) k_t v_t^T)^T q_t.
// H query heads read G state heads, H / G consecutive ones each.
//
// Rows are steps. But segments of kFewestChunkTokens rows and more go in chunks
// where the decay has a matrix form (kNone, kScalar, kKey), which agrees with
// steps within rounding. Immutable; thread-safe.
class GatedRecurrence {
 public:
  struct Options {
    size_t query_heads = 0;  // H
    size_t state_heads = 0;  // G, divides H
    size_t K = 0;            // width of keys
    size_t V = 0;            // width of values
    float scale = 1;
    Decay decay = Decay::kNone;
    std::optional<float> normalizer_eps{};  // set: with z, kept in double
    bool bonus = false;  // readout first; only with kKey and without groups
    // kScalar with factors that do not depend on the token, one for each state
    // head; inputs.alpha is then unused.
    std::vector<double> constants{};
    std::vector<float> rate{};  // f32[G, K, V], kFull only
  };

  // Where the inputs of a batch lie. q is per query head, all others per state
  // head.
  struct Inputs {
    HeadRows q, k;     // f32[K]
    HeadRows v;        // f32[V]
    HeadRows alpha{};  // kScalar f32[1]; kKey, kOuter, kComplex f32[K]
    HeadRows beta{};   // kValue, kOuter, kFull f32[V]; kComplex f32[K]: the
                       // imaginary part of the factor
    // What factors lack, as SplitDecay has it; of steps of kFull nothing. Their
    // data may be null.
    HeadRows alpha_low{}, beta_low{};
    HeadRows bonus{};  // f32[K]
  };

  GatedRecurrence() = default;

  // Declares the state slots "S", [G, K, V] ([G, 2, K, V] if complex; doubles
  // where the past fades so slowly that float32 would lose it), and with a
  // normalizer "Z", doubles [G, K]. Errors as StateLayoutBuilder.
  static absl::StatusOr<GatedRecurrence> Make(const MixerBuilder& builder,
                                              Options options);

  // True if it can run passes other than kCausal.
  bool bidirectional() const {
    return options_.decay == Decay::kNone && !options_.bonus;
  }

  // Advances all segments.
  //   out  f32[rows, H V; stride out_stride]  overwritten
  void Run(std::span<const Segment> segments, const Inputs& inputs, float* out,
           size_t out_stride, Workspace::Buffers& buffers) const;

 private:
  // What moves one state head by one token.
  struct Move {
    Decays alpha;    // f32[K], of kScalar f32[1]
    Decays beta;     // f32[V]; kComplex f32[K]
    const float* k;  // f32[K]; null: the state is read only
    const float* v;  // f32[V]
  };

  // A few state heads over a segment, in the form that it takes. `scratch` is
  // the worker's.
  struct Heads {
    size_t first;
    size_t end;
  };
  void RunHeads(const Segment& segment, Heads heads, const Inputs& inputs,
                float* scratch, float* out, size_t out_stride) const;
  // How many heads a task takes.
  size_t HeadsOfTask(std::span<const Segment> segments, const Inputs& inputs,
                     size_t threads) const;

  // One state head over a segment, step by step. `scratch` is the worker's.
  void RunHead(const Segment& segment, size_t head, const Inputs& inputs,
               float* scratch, float* out, size_t out_stride) const;
  // The same of a segment of one row on a packed state. REQUIRES: fused_.
  void RunPacked(const Segment& segment, size_t head, const Inputs& inputs,
                 float* scratch, float* out, size_t out_stride) const;
  // The same, its state being in float32, or in doubles if it grows.
  void RunRows(const Segment& segment, size_t head, const Inputs& inputs,
               float* state, float* out, size_t out_stride) const;
  Move MoveOf(const Inputs& inputs, size_t row, size_t head) const;
  // What kernels take of the move and of one query, whose result goes to `o`.
  HeadToken TokenOf(const Move& move, const float* q, float* o) const;
  // Makes the move and reads the state for one query, the bonus included.
  void StepRow(const Move& move, const HeadToken& token, const Inputs& inputs,
               size_t row, size_t head, std::byte* session, float* state) const;
  void Step(const Move& move, const HeadToken& token, size_t head,
            float* state) const;
  // Reads the state for one query.
  void Read(const HeadToken& token, size_t head, std::byte* session,
            const float* state) const;
  // Makes the move of the sum of keys, unless it has no key, and divides by it
  // what was read.
  void Normalize(const Move& move, const HeadToken& token, double* sums) const;

  // In chunks, in gated_recurrence_chunks.cc.

  // What the rows of a chunk and one worker's scratch are.
  struct Chunk;
  struct ChunkScratch;
  bool HasChunks() const {
    return options_.decay == Decay::kNone || options_.decay == Decay::kScalar ||
           options_.decay == Decay::kKey;
  }
  bool InChunks(const Segment& segment) const {
    return HasChunks() && segment.rows >= kFewestChunkTokens;
  }
  // Makes tables for the options; returns the floats that a worker needs.
  size_t PrepareChunks();
  ChunkScratch Divide(float* scratch) const;
  void RunChunks(const Segment& segment, Heads heads, const Inputs& inputs,
                 float* scratch, float* out, size_t out_stride) const;
  // One head over a chunk, its state being in float32, or in doubles if it
  // grows.
  void RunScalarChunk(const Chunk& chunk, size_t head, float* state,
                      ChunkScratch& scratch) const;
  void RunKeyChunk(const Chunk& chunk, size_t head, float* state,
                   const ChunkScratch& scratch) const;
  void NormalizeChunk(const Chunk& chunk, size_t head) const;
  // Adds what a chunk of L tokens gives, f32[K, V], to a state that grows.
  void Grow(std::byte* session, size_t head, size_t L,
            const float* added) const;

  Options options_;
  bool grows_ = false;                // S is in doubles
  bool fused_ = false;                // there is a step on the packed S
  std::vector<float> alphas_;         // f32[G] of constants
  std::vector<float> alphas_low_;     // f32[G], what they lack
  std::vector<double> exact_alphas_;  // f64[G, K] of constants, if it grows
  std::vector<float> ones_;           // f32[max(K, V)]
  std::vector<float> powers_;  // f32[G, kPowerFloats] of constants and ones
  size_t most_heads_ = 1;      // of a task in chunks
  HeadMatrices state_;         // [G, K, V] or [G, 2, K, V]
  DoubleSlotHandle growing_state_;  // f64[G, K, V], in its place if it grows
  DoubleSlotHandle sums_;           // f64[G, K]
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_PARTS_GATED_RECURRENCE_H_
