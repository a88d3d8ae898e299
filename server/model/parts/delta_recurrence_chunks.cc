// The chunk form of DeltaRecurrence: what a chunk writes under its keys is
// solved for, and is then what values are to a chunk of scalar decay.
#include <algorithm>

#include "kernels/chunk/scalar_decay_chunk.h"
#include "kernels/chunk/token_pairs.h"
#include "server/model/parts/delta_recurrence.h"

namespace steadystate {

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

void DeltaRecurrence::RunChunks(const Batch<DeltaRule>& batch,
                                const HeadSpan& head, float* state,
                                float* scratch) const {
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
  ForChunks(head.segment, kChunkTokens, [&](const RowChunk& chunk) {
    RunChunk(batch, chunk, head.first, state, divided);
  });
}

void DeltaRecurrence::RunChunk(const Batch<DeltaRule>& batch,
                               const RowChunk& chunk, size_t head, float* state,
                               const ChunkScratch& scratch) const {
  const Options& o = options_;
  const DeltaRule& in = batch.inputs;
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
  ReadScalarDecayChunk({.L = chunk.L,
                        .K = o.K,
                        .V = o.V,
                        .scale = o.scale,
                        .fading = fading,
                        .q = q,
                        .v = u,
                        .scores = scratch.scores,
                        .state = state,
                        .weights = scratch.weights,
                        .o = batch.out.At(chunk.first_row, head),
                        .o_stride = batch.out.row_stride});
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
