#ifndef STEADYSTATE_SERVER_MODEL_PARTS_MLSTM_RECURRENCE_H_
#define STEADYSTATE_SERVER_MODEL_PARTS_MLSTM_RECURRENCE_H_

#include <cstddef>
#include <span>

#include "absl/status/statusor.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"
#include "server/model/parts/head_loop.h"
#include "server/model/parts/head_matrices.h"
#include "server/model/parts/heads.h"
#include "server/model/parts/scalar_chunk.h"
#include "server/model/state_layout.h"
#include "server/model/workspace.h"

namespace steadystate {

// The matrix memory of xLSTM (Beck et al. 2024), for all heads of a layer. With
// an input gate e^i and a forget gate f, m being the stabiliser:
//   m' = max(log f + m, i),  F = e^(log f + m - m'),  I = e^(i - m')
//   C <- F C + I k v^T,  n <- F n + I k
//   o = scale C^T q / (max(|scale q . n|, e^-m') + eps)
// The token's own (k, v) is in o. C and n are in units of e^m, so that gates of
// any size survive. m starts as 0, which decides e^-m. n and m are doubles: m
// takes in a log f per token, and whatever it loses would be lost to every
// later decay.
//
// Given the gates in these units C is a recurrence of scalar decay. So segments
// of kFewestChunkTokens rows and more go in chunks, which agrees with steps
// within rounding. Immutable; thread-safe.
class MlstmRecurrence {
 public:
  struct Options {
    size_t heads = 0;  // H
    size_t K = 0;      // width of keys
    size_t V = 0;      // width of values
    float scale = 1;
    float eps = 0;
  };

  // Where the inputs of a batch lie, per head.
  struct Inputs {
    HeadRows q, k;        // f32[K]
    HeadRows v;           // f32[V]
    HeadRows log_input;   // f32[1]: i
    HeadRows log_forget;  // f32[1]: log f
  };

  MlstmRecurrence() = default;

  // Declares the state slots "C", [H, K, V], and, of doubles, "n", [H, K], and
  // "m", [H]. Errors as StateLayoutBuilder.
  static absl::StatusOr<MlstmRecurrence> Make(const MixerBuilder& builder,
                                              const Options& options);

  // Advances all segments.
  //   out  f32[rows, H V; stride out_stride]  overwritten
  // REQUIRES: every pass is Pass::kCausal.
  void Run(std::span<const Segment> segments, const Inputs& inputs, float* out,
           size_t out_stride, Workspace::Buffers& buffers) const;

 private:
  class Rule;
  struct Batch {
    const Inputs& inputs;
    HeadOutputs out;
  };
  // A worker's scratch memory for a chunk.
  struct ChunkPlaces {
    WorkerSlice<float> q;  // f32[kChunkTokens, K]
    WorkerSlice<float> k;  // f32[kChunkTokens, K], times I
    WorkerSlice<float> v;  // f32[kChunkTokens, V]
    ScalarChunkPlaces scalar;
  };

  // Takes the gates of a chunk's tokens, and their keys times I to `keys`.
  struct ChunkGates;
  void TakeGates(const Inputs& inputs, const RowChunk& chunk, size_t head,
                 ChunkGates& gates, float* keys) const;
  // Runs a head over a chunk. `memory` is its C in float32.
  void RunChunk(const Batch& batch, const RowChunk& chunk, size_t head,
                float* memory, const WorkerScratch& scratch) const;

  Options options_;
  HeadMatrices memory_;          // C
  DoubleSlotHandle normalizer_;  // n
  DoubleSlotHandle stabilizer_;  // m
  HeadMatrices::Room room_;
  ChunkPlaces at_;  // steps use k's first row
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_PARTS_MLSTM_RECURRENCE_H_
