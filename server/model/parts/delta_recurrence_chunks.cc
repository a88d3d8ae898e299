// The chunk form of DeltaRecurrence: what a chunk writes under its keys is
// solved for, and is then what values are to a chunk of scalar decay.
#include <algorithm>

#include "kernels/chunk/scalar_decay_chunk.h"
#include "kernels/chunk/token_pairs.h"
#include "server/model/parts/delta_recurrence.h"

namespace steadystate {

void DeltaRecurrence::PlanChunks(WorkerScratchPlan& plan) {
  if (options_.decay == Decay::kKey) return;
  const size_t C = kChunkTokens;
  at_ = {.q = plan.Add(C * options_.K),
         .k = plan.Add(C * options_.K),
         .keys = plan.Add(options_.K * C),
         .scores = plan.Add(C * C),
         .fading = plan.Add(kFadingFloats),
         .weights = plan.Add(kWeightFloats),
         .written = plan.Add(C * options_.V),
         .faded = plan.Add(C * options_.V)};
}

void DeltaRecurrence::RunChunks(const Batch<DeltaRule>& batch,
                                const HeadSpan& head, float* state,
                                const WorkerScratch& scratch) const {
  ForChunks(head.segment, kChunkTokens, [&](const RowChunk& chunk) {
    RunChunk(batch, chunk, head.first, state, scratch);
  });
}

void DeltaRecurrence::RunChunk(const Batch<DeltaRule>& batch,
                               const RowChunk& chunk, size_t head, float* state,
                               const WorkerScratch& scratch) const {
  const Options& o = options_;
  const DeltaRule& in = batch.inputs;
  const ChunkRows q = chunk.Pack(in.q, head, o.K, scratch[at_.q]);
  const ChunkRows k = chunk.Pack(in.k, head, o.K, scratch[at_.k]);
  const Fading fading =
      o.decay == Decay::kNone
          ? FadingOfPowers(chunk.L, powers_.data())
          : ChunkFading(chunk.L, chunk.Rows(in.alpha, head),
                        chunk.Rows(in.alpha_low, head), scratch[at_.fading]);
  TransposeKeys(chunk.L, o.K, k, scratch[at_.keys]);
  ChunkScores(chunk.L, o.K, k, scratch[at_.keys], scratch[at_.scores]);
  SolveDeltaChunk({.L = chunk.L,
                   .K = o.K,
                   .V = o.V,
                   .fading = fading,
                   .k = k,
                   .v = chunk.Rows(in.v, head),
                   .beta = chunk.Rows(in.beta, head),
                   .key_scores = scratch[at_.scores],
                   .state = state,
                   .weights = scratch[at_.weights],
                   .u = scratch[at_.written]});
  ChunkScores(chunk.L, o.K, q, scratch[at_.keys], scratch[at_.scores]);
  const ChunkRows u = {scratch[at_.written], o.V};
  ReadScalarDecayChunk({.L = chunk.L,
                        .K = o.K,
                        .V = o.V,
                        .scale = o.scale,
                        .fading = fading,
                        .q = q,
                        .v = u,
                        .scores = scratch[at_.scores],
                        .state = state,
                        .weights = scratch[at_.weights],
                        .o = batch.out.At(chunk.first_row, head),
                        .o_stride = batch.out.row_stride});
  UpdateScalarDecayChunk({.L = chunk.L,
                          .K = o.K,
                          .V = o.V,
                          .fading = fading,
                          .k = k,
                          .v = u,
                          .state = state,
                          .faded = scratch[at_.faded]});
}

}  // namespace steadystate
