// The chunk form of GatedRecurrence: a segment's rows in matrix products.
#include <algorithm>
#include <cmath>

#include "kernels/chunk/key_decay_chunk.h"
#include "kernels/chunk/scalar_decay_chunk.h"
#include "kernels/chunk/token_pairs.h"
#include "kernels/recurrence/growing_sum.h"
#include "server/model/parts/gated_recurrence.h"

namespace steadystate {

// Some consecutive rows of a segment.
struct GatedRecurrence::Chunk {
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
  float* Out(size_t head, size_t V) const {
    return out + first_row * out_stride + head * V;
  }

  const Inputs& inputs;
  std::byte* session;
  Pass pass;
  size_t first_row;
  size_t L;  // rows
  float* out;
  size_t out_stride;
};

// A worker's scratch memory, divided up.
struct GatedRecurrence::ChunkScratch {
  // Packs and transposes the keys of a head, unless they are there.
  void TakeKeys(const Chunk& chunk, size_t head, size_t K) {
    const float* of = chunk.inputs.k.At(0, head);
    if (of == k_of) return;
    TransposeKeys(chunk.L, K, chunk.Pack(chunk.inputs.k, head, K, k), keys);
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
  const size_t K = o.K;
  const size_t V = o.V;
  const size_t C = kChunkTokens;
  const bool of_tokens = o.decay != Decay::kNone && o.constants.empty();
  if (!of_tokens) {
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

void GatedRecurrence::RunChunks(const Segment& segment, Heads heads,
                                const Inputs& inputs, float* scratch,
                                float* out, size_t out_stride) const {
  const bool keys = options_.decay == Decay::kKey;
  const size_t most = keys ? kKeyChunkTokens : kChunkTokens;
  ChunkScratch divided = Divide(scratch);
  const auto opened = [&](size_t head) {
    return divided.opened + (head - heads.first) * state_.scratch_floats();
  };
  float* states[kMostHeads] = {};
  for (size_t head = heads.first; !grows_ && head < heads.end; ++head) {
    states[head - heads.first] = state_.Open(segment, head, opened(head));
  }
  for (size_t done = 0; done < segment.rows; done += most) {
    const Chunk chunk = {.inputs = inputs,
                         .session = segment.state,
                         .pass = segment.pass,
                         .first_row = segment.first_row + done,
                         .L = std::min(most, segment.rows - done),
                         .out = out,
                         .out_stride = out_stride};
    divided.k_of = nullptr;
    divided.q_of = nullptr;
    for (size_t head = heads.first; head < heads.end; ++head) {
      float* state = states[head - heads.first];
      if (keys) {
        RunKeyChunk(chunk, head, state, divided);
      } else {
        RunScalarChunk(chunk, head, state, divided);
      }
      if (options_.normalizer_eps.has_value()) {
        NormalizeChunk(chunk, head);
      }
    }
  }
  for (size_t head = heads.first; !grows_ && head < heads.end; ++head) {
    state_.Close(segment, head, opened(head));
  }
}

void GatedRecurrence::RunScalarChunk(const Chunk& chunk, size_t head,
                                     float* state,
                                     ChunkScratch& scratch) const {
  const Options& o = options_;
  const Inputs& in = chunk.inputs;
  const size_t group = o.query_heads / o.state_heads;
  if (grows_) {
    state = scratch.room;
    NarrowState(o.K * o.V, growing_state_.In(chunk.session) + head * o.K * o.V,
                state);
  }
  const Fading fading =
      powers_.empty()
          ? ChunkFading(chunk.L, chunk.Rows(in.alpha, head),
                        chunk.Rows(in.alpha_low, head), scratch.fading)
          : FadingOfPowers(chunk.L, powers_.data() + head * kPowerFloats);
  if (chunk.pass != Pass::kRead) scratch.TakeKeys(chunk, head, o.K);
  const ChunkRows k = {scratch.k, o.K};
  const ChunkRows v = chunk.Pack(in.v, head, o.V, scratch.v);
  for (size_t h = head * group; h < (head + 1) * group; ++h) {
    if (chunk.pass == Pass::kAbsorb) break;
    const ChunkRows q = {scratch.q, o.K};
    const bool other = in.q.At(0, h) != scratch.q_of;
    if (other) chunk.Pack(in.q, h, o.K, scratch.q);
    scratch.q_of = in.q.At(0, h);
    float* to = chunk.Out(h, o.V);
    if (chunk.pass == Pass::kRead) {
      ReadChunk(chunk.L, o.K, o.V, o.scale, q, state, to, chunk.out_stride);
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
                          .o_stride = chunk.out_stride});
  }
  if (chunk.pass == Pass::kRead) return;
  UpdateScalarDecayChunk({.L = chunk.L,
                          .K = o.K,
                          .V = o.V,
                          .fading = fading,
                          .k = k,
                          .v = v,
                          .state = state,
                          .fresh = grows_,
                          .faded = scratch.faded});
  if (grows_) Grow(chunk.session, head, chunk.L, state);
}

void GatedRecurrence::RunKeyChunk(const Chunk& chunk, size_t head, float* state,
                                  const ChunkScratch& scratch) const {
  const Options& o = options_;
  const Inputs& in = chunk.inputs;
  const size_t group = o.query_heads / o.state_heads;
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
      .o_stride = chunk.out_stride};
  for (size_t h = head * group; h < (head + 1) * group; ++h) {
    read.q = chunk.Pack(in.q, h, o.K, scratch.q);
    read.o = chunk.Out(h, o.V);
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

void GatedRecurrence::NormalizeChunk(const Chunk& chunk, size_t head) const {
  const size_t group = options_.query_heads / options_.state_heads;
  double* sums = sums_.In(chunk.session) + head * options_.K;
  for (size_t t = 0; t < chunk.L; ++t) {
    const size_t row = chunk.first_row + t;
    Move move = {};
    if (chunk.pass != Pass::kRead) {
      move = MoveOf(chunk.inputs, row, head);
    }
    for (size_t h = head * group; h < (head + 1) * group; ++h) {
      float* o = chunk.out + row * chunk.out_stride + h * options_.V;
      Normalize(move, TokenOf(move, chunk.inputs.q.At(row, h), o), sums);
      move.k = nullptr;
    }
  }
}

void GatedRecurrence::Grow(std::byte* session, size_t head, size_t L,
                           const float* added) const {
  const size_t floats = options_.K * options_.V;
  const double kept =
      exact_alphas_.empty()
          ? 1.0
          : std::pow(exact_alphas_[head * options_.K], static_cast<double>(L));
  AddToState(floats, kept, added, growing_state_.In(session) + head * floats);
}

}  // namespace steadystate
