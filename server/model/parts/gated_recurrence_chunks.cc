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

class GatedRecurrence::ChunkMemory {
 public:
  ChunkMemory(const WorkerScratch& scratch, const ChunkPlaces& at)
      : scratch_(scratch), at_(at) {}

  float* operator[](WorkerSlice<float> slice) const { return scratch_[slice]; }

  // The rows of another chunk follow.
  void Clear() { k_of_ = q_of_ = nullptr; }

  // Packs and transposes the keys of a head, unless they are there.
  void TakeKeys(const RowChunk& chunk, const HeadRows& rows, size_t head,
                size_t K) {
    const float* of = rows.At(0, head);
    if (of == k_of_) return;
    const ChunkRows packed = chunk.Pack(rows, head, K, scratch_[at_.k]);
    TransposeKeys(chunk.L, K, packed, scratch_[at_.scalar.keys]);
    k_of_ = of;
    q_of_ = nullptr;
  }

  // Packs the queries of a head, unless they are there. True if they were not:
  // then there are no scores of them and the keys.
  bool TakeQueries(const RowChunk& chunk, const HeadRows& rows, size_t head,
                   size_t K) {
    const float* of = rows.At(0, head);
    if (of == q_of_) return false;
    chunk.Pack(rows, head, K, scratch_[at_.q]);
    q_of_ = of;
    return true;
  }

 private:
  const WorkerScratch& scratch_;
  const ChunkPlaces& at_;
  const float* k_of_ = nullptr;
  const float* q_of_ = nullptr;
};

namespace {

// Heads that share scores are run together, as many as this; of packed states,
// which lie unpacked in scratch memory, as many as fit into the cache.
constexpr size_t kMostHeads = 8;
constexpr size_t kMostUnpackedFloats = size_t{1} << 16;

}  // namespace

void GatedRecurrence::PrepareChunks(WorkerScratchPlan& plan) {
  const Options& o = options_;
  const size_t K = o.K;
  const size_t V = o.V;
  const size_t C = kChunkTokens;
  switch (o.decay) {
    case Decay::kNone:
    case Decay::kScalar:
      chunk_step_ = grows_ ? &GatedRecurrence::GrowingChunk
                           : &GatedRecurrence::ScalarDecayChunk;
      chunk_tokens_ = kChunkTokens;
      if (grows_) at_.grown = plan.Add(K * V);
      at_.scalar = ScalarChunkPlaces::Plan(K, V, plan);
      break;
    case Decay::kKey:
      chunk_step_ = &GatedRecurrence::KeyDecayChunk;
      chunk_tokens_ = kKeyChunkTokens;
      at_.alpha = plan.Add(C * K);
      at_.parts = plan.Add(std::max(KeyReadFloats(K), KeyUpdateFloats(K)));
      break;
    case Decay::kValue:
    case Decay::kOuter:
    case Decay::kFull:
    case Decay::kComplex:
      return;
  }
  at_.q = plan.Add(C * K);
  at_.k = plan.Add(C * K);
  at_.v = plan.Add(C * V);
  const size_t unpacked = state_.room_floats();
  most_heads_ =
      unpacked == 0
          ? kMostHeads
          : std::clamp<size_t>(kMostUnpackedFloats / unpacked, 1, kMostHeads);
  while (rooms_.size() < most_heads_) rooms_.push_back(state_.PlanRoom(plan));
  if (o.decay != Decay::kNone && o.constants.empty()) return;
  powers_.resize(o.state_heads * kPowerFloats);
  for (size_t head = 0; head < o.state_heads; ++head) {
    FillPowers(o.constants.empty() ? 1.0 : o.constants[head],
               powers_.data() + head * kPowerFloats);
  }
}

void GatedRecurrence::RunChunks(const Batch& batch, const HeadSpan& heads,
                                const WorkerScratch& scratch) const {
  ChunkMemory memory(scratch, at_);
  std::array<std::optional<OpenHeadMatrix>, kMostHeads> states;
  for (size_t head = heads.first; !grows_ && head < heads.end; ++head) {
    const size_t i = head - heads.first;
    states[i].emplace(state_, heads.segment, head, rooms_[i], scratch);
  }
  ForChunks(heads.segment, chunk_tokens_, [&](const RowChunk& chunk) {
    memory.Clear();
    for (size_t head = heads.first; head < heads.end; ++head) {
      const std::optional<OpenHeadMatrix>& state = states[head - heads.first];
      (this->*chunk_step_)(batch, chunk, head,
                           state.has_value() ? state->data() : nullptr, memory);
      if (options_.normalizer_eps.has_value()) {
        NormalizeChunk(batch, chunk, head);
      }
    }
  });
}

void GatedRecurrence::ScalarDecayChunk(const Batch& batch,
                                       const RowChunk& chunk, size_t head,
                                       float* state,
                                       ChunkMemory& memory) const {
  const Options& o = options_;
  const Inputs& in = batch.inputs;
  const Pass pass = chunk.segment.pass;
  const Fading fading =
      powers_.empty()
          ? ChunkFading(chunk.L, chunk.Rows(in.alpha, head),
                        chunk.Rows(in.alpha_low, head),
                        memory[at_.scalar.fading])
          : FadingOfPowers(chunk.L, powers_.data() + head * kPowerFloats);
  if (pass != Pass::kRead) memory.TakeKeys(chunk, in.k, head, o.K);
  const ChunkRows k = {memory[at_.k], o.K};
  const ChunkRows v = chunk.Pack(in.v, head, o.V, memory[at_.v]);
  for (size_t h = head * group(); h < (head + 1) * group(); ++h) {
    if (pass == Pass::kAbsorb) break;
    const ChunkRows q = {memory[at_.q], o.K};
    const bool other = memory.TakeQueries(chunk, in.q, h, o.K);
    float* to = batch.out.At(chunk.first_row, h);
    if (pass == Pass::kRead) {
      ReadChunk(chunk.L, o.K, o.V, o.scale, q, state, to, batch.out.row_stride);
      continue;
    }
    if (other)
      ChunkScores(chunk.L, o.K, q, memory[at_.scalar.keys],
                  memory[at_.scalar.scores]);
    ReadScalarDecayChunk({.L = chunk.L,
                          .K = o.K,
                          .V = o.V,
                          .scale = o.scale,
                          .fading = fading,
                          .q = q,
                          .v = v,
                          .scores = memory[at_.scalar.scores],
                          .state = state,
                          .weights = memory[at_.scalar.weights],
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
                          .faded = memory[at_.scalar.faded]});
}

// The state is read rounded, and what the chunk gives is added in doubles.
void GatedRecurrence::GrowingChunk(const Batch& batch, const RowChunk& chunk,
                                   size_t head, float* /*state*/,
                                   ChunkMemory& memory) const {
  const size_t floats = options_.K * options_.V;
  double* const state = GrowingState(chunk.segment, head);
  NarrowState(floats, state, memory[at_.grown]);
  ScalarDecayChunk(batch, chunk, head, memory[at_.grown], memory);
  if (chunk.segment.pass == Pass::kRead) return;
  const double kept = exact_alphas_.empty()
                          ? 1.0
                          : std::pow(exact_alphas_[head * options_.K],
                                     static_cast<double>(chunk.L));
  AddToState(floats, kept, memory[at_.grown], state);
}

void GatedRecurrence::KeyDecayChunk(const Batch& batch, const RowChunk& chunk,
                                    size_t head, float* state,
                                    ChunkMemory& memory) const {
  const Options& o = options_;
  const Inputs& in = batch.inputs;
  KeyDecayRead read = {
      .L = chunk.L,
      .K = o.K,
      .V = o.V,
      .scale = o.scale,
      .alpha = chunk.Pack(in.alpha, head, o.K, memory[at_.alpha]),
      .k = chunk.Pack(in.k, head, o.K, memory[at_.k]),
      .v = chunk.Pack(in.v, head, o.V, memory[at_.v]),
      .bonus = o.bonus ? in.bonus.At(chunk.first_row, head) : nullptr,
      .state = state,
      .scratch = memory[at_.parts],
      .o_stride = batch.out.row_stride};
  for (size_t h = head * group(); h < (head + 1) * group(); ++h) {
    read.q = chunk.Pack(in.q, h, o.K, memory[at_.q]);
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
                       .scratch = memory[at_.parts]});
}

}  // namespace steadystate
