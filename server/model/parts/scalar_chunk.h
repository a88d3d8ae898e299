#ifndef STEADYSTATE_SERVER_MODEL_PARTS_SCALAR_CHUNK_H_
#define STEADYSTATE_SERVER_MODEL_PARTS_SCALAR_CHUNK_H_

#include <cstddef>

#include "kernels/chunk/token_pairs.h"
#include "server/model/workspace.h"

namespace steadystate {

// What recurrences of one decay a token share when a head goes over a chunk
// (kernels/chunk/scalar_decay_chunk.h), whatever makes its decays and values.

// A worker's scratch memory for it.
struct ScalarChunkPlaces {
  static ScalarChunkPlaces Plan(size_t K, size_t V, WorkerScratchPlan& plan);

  WorkerSlice<float> keys;     // f32[K, kChunkTokens]
  WorkerSlice<float> scores;   // f32[kChunkTokens, kChunkTokens]
  WorkerSlice<float> fading;   // f32[kFadingFloats]
  WorkerSlice<float> weights;  // f32[kWeightFloats]
  WorkerSlice<float> faded;    // f32[kChunkTokens, V]
};

// One head over a chunk of L tokens.
struct ScalarChunk {
  size_t L = 0, K = 0, V = 0;
  float scale = 1;
  Fading fading{};
  ChunkRows q{};           // f32[K]
  ChunkRows k{};           // f32[K]
  ChunkRows v{};           // f32[V]
  float* state = nullptr;  // f32[K, V]  in/out
  float* o = nullptr;      // f32[L, V; o_stride]  overwritten
  size_t o_stride = 0;
};

// Reads the state for the chunk's queries, and moves it by the chunk.
// REQUIRES: keys are at their place, as TransposeKeys leaves them. Overwrites
// the other places, but for the fading.
void RunScalarChunk(const ScalarChunk& chunk, const ScalarChunkPlaces& at,
                    const WorkerScratch& scratch);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_PARTS_SCALAR_CHUNK_H_
