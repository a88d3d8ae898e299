#include "server/model/parts/scalar_chunk.h"

#include "kernels/chunk/scalar_decay_chunk.h"

namespace steadystate {

ScalarChunkPlaces ScalarChunkPlaces::Plan(size_t K, size_t V,
                                          WorkerScratchPlan& plan) {
  return {.keys = plan.Add(K * kChunkTokens),
          .scores = plan.Add(kChunkTokens * kChunkTokens),
          .fading = plan.Add(kFadingFloats),
          .weights = plan.Add(kWeightFloats),
          .faded = plan.Add(kChunkTokens * V)};
}

void RunScalarChunk(const ScalarChunk& chunk, const ScalarChunkPlaces& at,
                    const WorkerScratch& scratch) {
  ChunkScores(chunk.L, chunk.K, chunk.q, scratch[at.keys], scratch[at.scores]);
  ReadScalarDecayChunk({.L = chunk.L,
                        .K = chunk.K,
                        .V = chunk.V,
                        .scale = chunk.scale,
                        .fading = chunk.fading,
                        .q = chunk.q,
                        .v = chunk.v,
                        .scores = scratch[at.scores],
                        .state = chunk.state,
                        .weights = scratch[at.weights],
                        .o = chunk.o,
                        .o_stride = chunk.o_stride});
  UpdateScalarDecayChunk({.L = chunk.L,
                          .K = chunk.K,
                          .V = chunk.V,
                          .fading = chunk.fading,
                          .k = chunk.k,
                          .v = chunk.v,
                          .state = chunk.state,
                          .faded = scratch[at.faded]});
}

}  // namespace steadystate
