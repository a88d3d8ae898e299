// The chunk form of GatedRecurrence: a segment's rows in matrix products.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "kernels/chunk/key_decay_chunk.h"
#include "kernels/chunk/scalar_decay_chunk.h"
#include "kernels/chunk/token_pairs.h"
#include "kernels/recurrence/growing_sum.h"
#include "server/model/parts/gated_recurrence.h"

namespace steadystate {

// A worker's scratch memory, divided up.
struct GatedRecurrence::ChunkScratch {
  // Packs and transposes the keys of a head, unless they are there.
  void TakeKeys(const RowChunk& chunk, const HeadRows& rows, size_t head,
                size_t K) {
    const float* of = rows.At(0, head);
    if (of == k_of) return;
    TransposeKeys(chunk.L, K, chunk.Pack(rows, head, K, k), keys);
    k_of = of;
    q_of = nullptr;
  }

  float* opened;  // of packed states, for each head of the task
  float* room;    // f32[K, V], of growing states
  // The rows of a head, side by side; L is at most kChunkTokens.
  float* q;      // f32[L, K]
  float* k;      // f32[L, K]
  float* v;      // f32[L, V]
  float* alpha;  // f32[L, K], of key decays
  float* parts;  // what the kernels of key decays take
  // Of scalar decays.
  float* keys;     // f32[K, kChunkTokens]
  float* scores;   // f32[kChunkTokens, kChunkTokens]
  float* fading;   // f32[kFadingFloats]
  float* weights;  // f32[kWeightFloats]
  float* faded;    // f32[kChunkTokens, V]
  // Whose keys and queries there are, and whose scores.
  const float* k_of = nullptr;
  const float* q_of = nullptr;
};

namespace {

// Heads that share scores are run together, as many as this; of packed states,
// which lie unpacked in scratch memory, as many as fit into the cache.
constexpr size_t kMostHeads = 8;
constexpr size_t kMostUnpackedFloats = size_t{1} << 16;

}  // namespace

size_t GatedRecurrence::PrepareChunks() {
  const Options& o = options_;
  switch (o.decay) {
    case Decay::kNone:
    case Decay::kScalar:
      chunk_step_ = grows_ ? &GatedRecurrence::GrowingChunk
                           : &GatedRecurrence::ScalarDecayChunk;
      chunk_tokens_ = kChunkTokens;
      break;
    case Decay::kKey:
      chunk_step_ = &GatedRecurrence::KeyDecayChunk;
      chunk_tokens_ = kKeyChunkTokens;
      break;
    case Decay::kValue:
    case Decay::kOuter:
    case Decay::kFull:
    case Decay::kComplex:
      return 0;
  }
  if (o.decay == Decay::kNone || !o.constants.empty()) {
    powers_.resize(o.state_heads * kPowerFloats);
    for (size_t head = 0; head < o.state_heads; ++head) {
      FillPowers(o.constants.empty() ? 1.0 : o.constants[head],
                 powers_.data() + head * kPowerFloats);
    }
  }
  const size_t unpacked = state_.scratch_floats();
  most_heads_ =
      unpacked == 0
          ? kMostHeads
          : std::clamp<size_t>(kMostUnpackedFloats / unpacked, 1, kMostHeads);
  const size_t K = o.K;
  const size_t V = o.V;
  const size_t C = kChunkTokens;
  const size_t both =
      most_heads_ * unpacked + (grows_ ? K * V : 0) + C * (2 * K + V);
  if (o.decay == Decay::kKey) {
    return both + C * K + std::max(KeyReadFloats(K), KeyUpdateFloats(K));
  }
  return both + C * (K + C + V) + kFadingFloats + kWeightFloats;
}

GatedRecurrence::ChunkScratch GatedRecurrence::Divide(float* scratch) const {
  const size_t K = options_.K;
  const size_t V = options_.V;
  const size_t C = kChunkTokens;
  ChunkScratch divided = {};
  divided.opened = scratch;
  divided.room = scratch + most_heads_ * state_.scratch_floats();
  divided.q = divided.room + (grows_ ? K * V : 0);
  divided.k = divided.q + C * K;
  divided.v = divided.k + C * K;
  float* rest = divided.v + C * V;
  divided.alpha = rest;
  divided.parts = divided.alpha + C * K;
  divided.keys = rest;
  divided.scores = divided.keys + K * C;
  divided.fading = divided.scores + C * C;
  divided.weights = divided.fading + kFadingFloats;
  divided.faded = divided.weights + kWeightFloats;
  return divided;
}

void GatedRecurrence::RunChunks(const Batch& batch, const HeadSpan& heads,
                                float* scratch) const {
  ChunkScratch divided = Divide(scratch);
  std::array<std::optional<OpenHeadMatrix>, kMostHeads> states;
  for (size_t head = heads.first; !grows_ && head < heads.end; ++head) {
    const size_t i = head - heads.first;
    states[i].emplace(state_, heads.segment, head,
                      divided.opened + i * state_.scratch_floats());
  }
  ForChunks(heads.segment, chunk_tokens_, [&](const RowChunk& chunk) {
    divided.k_of = nullptr;
    divided.q_of = nullptr;
    for (size_t head = heads.first; head < heads.end; ++head) {
      const std::optional<OpenHeadMatrix>& state = states[head - heads.first];
      (this->*chunk_step_)(batch, chunk, head,
                           state.has_value() ? state->data() : nullptr,
                           divided);
      if (options_.normalizer_eps.has_value()) {
        NormalizeChunk(batch, chunk, head);
      }
    }
  });
}

void GatedRecurrence::ScalarDecayChunk(const Batch& batch,
                                       const RowChunk& chunk, size_t head,
                                       float* state,
                                       ChunkScratch& scratch) const {
  const Options& o = options_;
  const Inputs& in = batch.inputs;
  const Pass pass = chunk.segment.pass;
  const Fading fading =
      powers_.empty()
          ? ChunkFading(chunk.L, chunk.Rows(in.alpha, head),
                        chunk.Rows(in.alpha_low, head), scratch.fading)
          : FadingOfPowers(chunk.L, powers_.data() + head * kPowerFloats);
  if (pass != Pass::kRead) scratch.TakeKeys(chunk, in.k, head, o.K);
  const ChunkRows k = {scratch.k, o.K};
  const ChunkRows v = chunk.Pack(in.v, head, o.V, scratch.v);
  for (size_t h = head * group(); h < (head + 1) * group(); ++h) {
    if (pass == Pass::kAbsorb) break;
    const ChunkRows q = {scratch.q, o.K};
    const bool other = in.q.At(0, h) != scratch.q_of;
    if (other) chunk.Pack(in.q, h, o.K, scratch.q);
    scratch.q_of = in.q.At(0, h);
    float* to = batch.out.At(chunk.first_row, h);
    if (pass == Pass::kRead) {
      ReadChunk(chunk.L, o.K, o.V, o.scale, q, state, to, batch.out.row_stride);
      continue;
    }
    if (other) ChunkScores(chunk.L, o.K, q, scratch.keys, scratch.scores);
    ReadScalarDecayChunk({.L = chunk.L,
                          .K = o.K,
                          .V = o.V,
                          .scale = o.scale,
                          .fading = fading,
                          .q = q,
                          .v = v,
                          .scores = scratch.scores,
                          .state = state,
                          .weights = scratch.weights,
                          .o = to,
                          .o_stride = batch.out.row_stride});
  }
  if (pass == Pass::kRead) return;
  UpdateScalarDecayChunk({.L = chunk.L,
                          .K = o.K,
                          .V = o.V,
                          .fading = fading,
                          .k = k,
                          .v = v,
                          .state = state,
                          .fresh = grows_,
                          .faded = scratch.faded});
}

// The state is read rounded, and what the chunk gives is added in doubles.
void GatedRecurrence::GrowingChunk(const Batch& batch, const RowChunk& chunk,
                                   size_t head, float* /*state*/,
                                   ChunkScratch& scratch) const {
  const size_t floats = options_.K * options_.V;
  double* const state = GrowingState(chunk.segment, head);
  NarrowState(floats, state, scratch.room);
  ScalarDecayChunk(batch, chunk, head, scratch.room, scratch);
  if (chunk.segment.pass == Pass::kRead) return;
  const double kept = exact_alphas_.empty()
                          ? 1.0
                          : std::pow(exact_alphas_[head * options_.K],
                                     static_cast<double>(chunk.L));
  AddToState(floats, kept, scratch.room, state);
}

void GatedRecurrence::KeyDecayChunk(const Batch& batch, const RowChunk& chunk,
                                    size_t head, float* state,
                                    ChunkScratch& scratch) const {
  const Options& o = options_;
  const Inputs& in = batch.inputs;
  KeyDecayRead read = {
      .L = chunk.L,
      .K = o.K,
      .V = o.V,
      .scale = o.scale,
      .alpha = chunk.Pack(in.alpha, head, o.K, scratch.alpha),
      .k = chunk.Pack(in.k, head, o.K, scratch.k),
      .v = chunk.Pack(in.v, head, o.V, scratch.v),
      .bonus = o.bonus ? in.bonus.At(chunk.first_row, head) : nullptr,
      .state = state,
      .scratch = scratch.parts,
      .o_stride = batch.out.row_stride};
  for (size_t h = head * group(); h < (head + 1) * group(); ++h) {
    read.q = chunk.Pack(in.q, h, o.K, scratch.q);
    read.o = batch.out.At(chunk.first_row, h);
    ReadKeyDecayChunk(read);
  }
  UpdateKeyDecayChunk({.L = chunk.L,
                       .K = o.K,
                       .V = o.V,
                       .alpha = read.alpha,
                       .alpha_low = chunk.Rows(in.alpha_low, head),
                       .k = read.k,
                       .v = read.v,
                       .state = state,
                       .scratch = scratch.parts});
}

}  // namespace steadystate
