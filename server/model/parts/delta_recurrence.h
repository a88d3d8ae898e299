#ifndef STEADYSTATE_SERVER_MODEL_PARTS_DELTA_RECURRENCE_H_
#define STEADYSTATE_SERVER_MODEL_PARTS_DELTA_RECURRENCE_H_

#include <cstddef>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/chunk/token_pairs.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"
#include "server/model/parts/gated_recurrence.h"
#include "server/model/parts/head_loop.h"
#include "server/model/parts/head_matrices.h"
#include "server/model/parts/heads.h"
#include "server/model/parts/scalar_chunk.h"
#include "server/model/state_layout.h"
#include "server/model/workspace.h"

namespace steadystate {

// Recurrences whose transition is diagonal plus rank one, for all heads of a
// layer. The delta rule (Schlag et al. 2021), with a decay (Yang et al. 2024)
// or without one, replaces what the state holds under the key by the value:
//   S <- diag(alpha) S,  u = beta (v - S^T k),  S <- S + k u^T,
//   o = scale S^T q.
// The general form (RWKV-7) reads under one vector and writes under another:
//   S <- diag(alpha) S + b (a^T S) + k v^T,   o = scale S^T q,
// a^T S being of the state before the decay. In both the token's own (k, v) is
// in o.
//
// Rows of the general form are steps. With the delta rule segments of
// kFewestChunkTokens rows and more go in chunks, which agrees with steps within
// rounding. Immutable; thread-safe.
class DeltaRecurrence {
 public:
  struct Options {
    size_t heads = 0;  // of the state, HV
    size_t K = 0;      // width of keys
    size_t V = 0;      // width of values
    float scale = 1;
    Decay decay = Decay::kNone;  // or kScalar or kKey
  };

  // Where the inputs of a batch lie, for each state head.
  struct DeltaRule {
    HeadRows q, k;     // f32[K]
    HeadRows v;        // f32[V]
    HeadRows beta;     // f32[1]
    HeadRows alpha{};  // kScalar f32[1], kKey f32[K]
    // What alpha lacks, as SplitDecay has it. Its data may be null.
    HeadRows alpha_low{};
  };
  struct GeneralForm {
    HeadRows q, k;                // f32[K]
    HeadRows v;                   // f32[V]
    HeadRows a, b;                // f32[K]
    HeadRows alpha, alpha_low{};  // as above
  };

  DeltaRecurrence() = default;

  // Declares the state slot "S", [HV, K, V]. Errors as StateLayoutBuilder.
  static absl::StatusOr<DeltaRecurrence> Make(const MixerBuilder& builder,
                                              const Options& options);

  // Advances all segments.
  //   out  f32[rows, HV V; stride out_stride]  overwritten
  void Run(std::span<const Segment> segments, const DeltaRule& inputs,
           float* out, size_t out_stride, Workspace::Buffers& buffers) const;
  void Run(std::span<const Segment> segments, const GeneralForm& inputs,
           float* out, size_t out_stride, Workspace::Buffers& buffers) const;

 private:
  // What one call of Run works on.
  template <typename Inputs>
  struct Batch {
    const Inputs& inputs;
    HeadDecays alpha;  // of K channels; ones where there are none
    HeadOutputs out;
  };
  template <typename Inputs>
  class Rule;

  template <typename Inputs>
  void RunHeads(std::span<const Segment> segments, const Inputs& inputs,
                const HeadOutputs& out, Workspace::Buffers& buffers) const;
  HeadDecays AlphaOf(const HeadRows& alpha, const HeadRows& low) const;

  // A worker's scratch memory for a chunk, of C tokens.
  struct ChunkPlaces {
    WorkerSlice<float> q, k;     // f32[C, K]
    WorkerSlice<float> written;  // f32[C, V]
    // With one decay a token, or none.
    ScalarChunkPlaces scalar;
    // With a decay per key channel.
    WorkerSlice<float> alpha;  // f32[C, K]
    WorkerSlice<float> v;      // f32[C, V]
    WorkerSlice<float> parts;  // f32[that of the chunk's kernels]
  };
  void PlanChunks(WorkerScratchPlan& plan);
  void RunChunks(const Batch<DeltaRule>& batch, const HeadSpan& head,
                 float* state, const WorkerScratch& scratch) const;
  void RunScalarDecayChunk(const Batch<DeltaRule>& batch, const RowChunk& chunk,
                           size_t head, float* state,
                           const WorkerScratch& scratch) const;
  void RunKeyDecayChunk(const Batch<DeltaRule>& batch, const RowChunk& chunk,
                        size_t head, float* state,
                        const WorkerScratch& scratch) const;

  Options options_;
  std::vector<float> ones_;    // f32[K]
  std::vector<float> powers_;  // f32[kPowerFloats] of 1
  HeadMatrices state_;         // [HV, K, V]
  HeadMatrices::Room room_;
  WorkerSlice<float> change_;  // f32[3, K]
  ChunkPlaces at_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_PARTS_DELTA_RECURRENCE_H_
