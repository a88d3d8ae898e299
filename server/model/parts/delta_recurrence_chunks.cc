// The chunk form of DeltaRecurrence: what a chunk writes under its keys is
// solved for, and is then what values are to a chunk of scalar decay.
#include <algorithm>

#include "kernels/chunk/scalar_decay_chunk.h"
#include "kernels/chunk/token_pairs.h"
#include "server/model/parts/delta_recurrence.h"

namespace steadystate {

// Some consecutive rows of a segment.
struct DeltaRecurrence::Chunk {
  // The rows of a head, where they lie; none where there are none.
  ChunkRows Rows(const HeadRows& rows, size_t head) const {
    if (rows.data == nullptr) return {};
    return {rows.At(first_row, head), rows.row_stride};
  }
  // The rows of a head, copied side by side to `to`, f32[L, width].
  ChunkRows Pack(const HeadRows& rows, size_t head, size_t width,
                 float* to) const {
    return PackRows(L, width, Rows(rows, head), to);
  }

  const DeltaRule& inputs;
  size_t first_row;
  size_t L;  // rows
  float* out;
  size_t out_stride;
};

// A worker's scratch memory, divided up.
struct DeltaRecurrence::ChunkScratch {
  float* q;        // f32[kChunkTokens, K]
  float* k;        // f32[kChunkTokens, K]
  float* keys;     // f32[K, kChunkTokens]
  float* scores;   // f32[kChunkTokens, kChunkTokens]
  float* fading;   // f32[kFadingFloats]
  float* weights;  // f32[kWeightFloats]
  float* written;  // f32[kChunkTokens, V]: u
  float* faded;    // f32[kChunkTokens, V]
};

size_t DeltaRecurrence::ChunkFloats() const {
  return kChunkTokens * (3 * options_.K + kChunkTokens + 2 * options_.V) +
         kFadingFloats + kWeightFloats;
}

void DeltaRecurrence::RunChunks(const Segment& segment, size_t head,
                                const DeltaRule& inputs, float* scratch,
                                float* out, size_t out_stride) const {
  const size_t K = options_.K;
  const size_t V = options_.V;
  ChunkScratch divided = {};
  divided.q = scratch;
  divided.k = divided.q + kChunkTokens * K;
  divided.keys = divided.k + kChunkTokens * K;
  divided.scores = divided.keys + K * kChunkTokens;
  divided.fading = divided.scores + kChunkTokens * kChunkTokens;
  divided.weights = divided.fading + kFadingFloats;
  divided.written = divided.weights + kWeightFloats;
  divided.faded = divided.written + kChunkTokens * V;
  float* const opened = divided.faded + kChunkTokens * V;
  float* const state = state_.Open(segment, head, opened);
  for (size_t done = 0; done < segment.rows; done += kChunkTokens) {
    const Chunk chunk = {.inputs = inputs,
                         .first_row = segment.first_row + done,
                         .L = std::min(kChunkTokens, segment.rows - done),
                         .out = out,
                         .out_stride = out_stride};
    RunChunk(chunk, head, state, divided);
  }
  state_.Close(segment, head, opened);
}

void DeltaRecurrence::RunChunk(const Chunk& chunk, size_t head, float* state,
                               const ChunkScratch& scratch) const {
  const Options& o = options_;
  const DeltaRule& in = chunk.inputs;
  const ChunkRows q = chunk.Pack(in.q, head, o.K, scratch.q);
  const ChunkRows k = chunk.Pack(in.k, head, o.K, scratch.k);
  const Fading fading =
      o.decay == Decay::kNone
          ? FadingOfPowers(chunk.L, powers_.data())
          : ChunkFading(chunk.L, chunk.Rows(in.alpha, head),
                        chunk.Rows(in.alpha_low, head), scratch.fading);
  TransposeKeys(chunk.L, o.K, k, scratch.keys);
  ChunkScores(chunk.L, o.K, k, scratch.keys, scratch.scores);
  SolveDeltaChunk({.L = chunk.L,
                   .K = o.K,
                   .V = o.V,
                   .fading = fading,
                   .k = k,
                   .v = chunk.Rows(in.v, head),
                   .beta = chunk.Rows(in.beta, head),
                   .key_scores = scratch.scores,
                   .state = state,
                   .weights = scratch.weights,
                   .u = scratch.written});
  ChunkScores(chunk.L, o.K, q, scratch.keys, scratch.scores);
  const ChunkRows u = {scratch.written, o.V};
  ReadScalarDecayChunk(
      {.L = chunk.L,
       .K = o.K,
       .V = o.V,
       .scale = o.scale,
       .fading = fading,
       .q = q,
       .v = u,
       .scores = scratch.scores,
       .state = state,
       .weights = scratch.weights,
       .o = chunk.out + chunk.first_row * chunk.out_stride + head * o.V,
       .o_stride = chunk.out_stride});
  UpdateScalarDecayChunk({.L = chunk.L,
                          .K = o.K,
                          .V = o.V,
                          .fading = fading,
                          .k = k,
                          .v = u,
                          .state = state,
                          .faded = scratch.faded});
}

}  // namespace steadystate
