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
#include "server/model/parts/head_loop.h"
#include "server/model/parts/head_matrices.h"
#include "server/model/parts/heads.h"
#include "server/model/parts/scalar_chunk.h"
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
  // What one call of Run works on.
  struct Batch {
    const Inputs& inputs;
    HeadDecays alpha;  // of K channels; ones where there are none
    HeadDecays beta;
    HeadOutputs out;
  };
  // One state head of a batch over a segment.
  struct HeadRun {
    const GatedRecurrence& of;
    const Batch& batch;
    const Segment& segment;
    size_t head;
    const WorkerScratch& scratch;
    const HeadMatrices::Room& room() const { return of.rooms_.front(); }
  };

  // The rules by which tokens move a head's state, in gated_recurrence.cc.
  // Decay, normalizer and the state's type choose among them, once.
  struct Rules;
  class Normalizer;
  using Steps = void (*)(const HeadRun& run);
  struct ChosenSteps {
    Steps one = nullptr;   // of a segment of one row
    Steps many = nullptr;  // of a longer one
  };

  HeadDecays AlphaOf(const Inputs& inputs) const;
  // How many heads a task takes.
  size_t HeadsOfTask(std::span<const Segment> segments, const Inputs& inputs,
                     size_t threads) const;
  size_t group() const { return options_.query_heads / options_.state_heads; }
  // What kernels take of a row's query head; key and value are missing.
  HeadToken QueryOf(const Batch& batch, size_t row, size_t query_head) const;
  // The head's state if it grows.
  double* GrowingState(const Segment& segment, size_t head) const {
    return growing_state_.In(segment.state) + head * options_.K * options_.V;
  }

  // In chunks, in gated_recurrence_chunks.cc.

  // A worker's scratch memory. The rows of a head lie side by side; L is at
  // most kChunkTokens.
  struct ChunkPlaces {
    WorkerSlice<float> grown;  // f32[K, V], of growing states
    WorkerSlice<float> q, k;   // f32[L, K]
    WorkerSlice<float> v;      // f32[L, V]
    // Of key decays.
    WorkerSlice<float> alpha;  // f32[L, K]
    WorkerSlice<float> parts;  // what their kernels take
    // Of scalar decays.
    ScalarChunkPlaces scalar;
  };
  // The same while a chunk is worked on, and whose rows are in there.
  class ChunkMemory;
  // Runs one head over a chunk, its state being in float32; or null, if the
  // state grows.
  using ChunkStep = void (GatedRecurrence::*)(const Batch& batch,
                                              const RowChunk& chunk,
                                              size_t head, float* state,
                                              ChunkMemory& memory) const;
  bool InChunks(const Segment& segment) const {
    return chunk_step_ != nullptr && segment.rows >= kFewestChunkTokens;
  }
  // Chooses how chunks go, if at all, and makes tables for them.
  void PrepareChunks(WorkerScratchPlan& plan);
  void RunChunks(const Batch& batch, const HeadSpan& heads,
                 const WorkerScratch& scratch) const;
  void ScalarDecayChunk(const Batch& batch, const RowChunk& chunk, size_t head,
                        float* state, ChunkMemory& memory) const;
  void GrowingChunk(const Batch& batch, const RowChunk& chunk, size_t head,
                    float* state, ChunkMemory& memory) const;
  void KeyDecayChunk(const Batch& batch, const RowChunk& chunk, size_t head,
                     float* state, ChunkMemory& memory) const;
  void NormalizeChunk(const Batch& batch, const RowChunk& chunk,
                      size_t head) const;

  Options options_;
  ChosenSteps steps_;
  ChunkStep chunk_step_ = nullptr;    // null: there are no chunks
  size_t chunk_tokens_ = 0;           // of a chunk at most
  size_t most_heads_ = 1;             // of a task in chunks
  bool grows_ = false;                // S is in doubles
  std::vector<float> alphas_;         // f32[G] of constants
  std::vector<float> alphas_low_;     // f32[G], what they lack
  std::vector<double> exact_alphas_;  // f64[G, K] of constants, if it grows
  std::vector<float> ones_;           // f32[max(K, V)]
  std::vector<float> powers_;  // f32[G, kPowerFloats] of constants and ones
  HeadMatrices state_;         // [G, K, V] or [G, 2, K, V]
  DoubleSlotHandle growing_state_;  // f64[G, K, V], in its place if it grows
  DoubleSlotHandle sums_;           // f64[G, K]
  // Of the heads of a task; steps use the first.
  std::vector<HeadMatrices::Room> rooms_;
  ChunkPlaces at_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_PARTS_GATED_RECURRENCE_H_
