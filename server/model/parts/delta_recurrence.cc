#include "server/model/parts/delta_recurrence.h"

#include <algorithm>
#include <type_traits>

#include "kernels/chunk/key_decay_chunk.h"
#include "kernels/chunk/scalar_decay_chunk.h"
#include "kernels/chunk/token_pairs.h"
#include "kernels/recurrence/rank_one_decay.h"
#include "server/base/status_macros.h"

namespace steadystate {

absl::StatusOr<DeltaRecurrence> DeltaRecurrence::Make(
    const MixerBuilder& builder, const Options& options) {
  DeltaRecurrence made;
  STEADYSTATE_ASSIGN_OR_RETURN(
      made.state_,
      HeadMatrices::Make(builder, "S", {options.heads, options.K, options.V}));
  made.ones_.assign(options.K, 1.0f);
  made.options_ = options;
  made.powers_.resize(kPowerFloats);
  FillPowers(1, made.powers_.data());
  WorkerScratchPlan plan(builder.scratch);
  made.room_ = made.state_.PlanRoom(plan);
  made.change_ = plan.Add(3 * options.K);
  made.PlanChunks(plan);
  return made;
}

// The rule of one head over a segment, by either kind of inputs.
template <typename Inputs>
class DeltaRecurrence::Rule {
 public:
  // `change` is f32[3, K], scratch; `next` is the state that this thread comes
  // to next, or null.
  Rule(const DeltaRecurrence& of, const Batch<Inputs>& batch,
       const HeadSpan& heads, float* state, const float* next, float* change)
      : o_(of.options_),
        batch_(batch),
        head_(heads.first),
        last_(heads.segment.first_row + heads.segment.rows - 1),
        state_(state),
        next_(next),
        scratch_(change) {}

  void Take(size_t row) {
    decay_ = batch_.alpha.At(row, head_);
    Write(batch_.inputs, row);
  }
  void Move(size_t row, size_t head) {
    RankOneDecayStep({.K = o_.K,
                      .V = o_.V,
                      .scale = o_.scale,
                      .q = batch_.inputs.q.At(row, head),
                      .k = key_,
                      .v = batch_.inputs.v.At(row, head),
                      .o = batch_.out.At(row, head)},
                     decay_, change_, state_, row == last_ ? next_ : nullptr);
  }

 private:
  // S^T k after the decay is S^T (alpha o k) before it, and
  //   k u^T = -(beta k) (S^T (alpha o k))^T + (beta k) v^T.
  void Write(const DeltaRule& inputs, size_t row) {
    const float* k = inputs.k.At(row, head_);
    const float beta = *inputs.beta.At(row, head_);
    float* a = scratch_;
    float* b = a + o_.K;
    float* written = b + o_.K;
    for (size_t i = 0; i < o_.K; ++i) {
      a[i] = decay_.High(i) * k[i];
      written[i] = beta * k[i];
      b[i] = -written[i];
    }
    change_ = {a, b};
    key_ = written;
  }
  void Write(const GeneralForm& inputs, size_t row) {
    change_ = {inputs.a.At(row, head_), inputs.b.At(row, head_)};
    key_ = inputs.k.At(row, head_);
  }

  const Options& o_;
  const Batch<Inputs>& batch_;
  const size_t head_;
  const size_t last_;  // row of the segment
  float* const state_;
  const float* const next_;
  float* const scratch_;
  // What moves the state by the row taken last.
  Decays decay_{};
  RankOne change_{};
  const float* key_ = nullptr;
};

template <typename Inputs>
void DeltaRecurrence::RunHeads(std::span<const Segment> segments,
                               const Inputs& inputs, const HeadOutputs& out,
                               Workspace::Buffers& buffers) const {
  const Batch<Inputs> batch = {.inputs = inputs,
                               .alpha = AlphaOf(inputs.alpha, inputs.alpha_low),
                               .out = out};
  const HeadLoop loop(segments, options_.heads);
  loop.Run(buffers, [&](size_t task, const WorkerScratch& scratch) {
    const HeadSpan head = loop[task];
    const OpenHeadMatrix state(state_, head.segment, head.first, room_,
                               scratch);
    if constexpr (std::is_same_v<Inputs, DeltaRule>) {
      if (head.segment.rows >= kFewestChunkTokens) {
        RunChunks(batch, head, state.data(), scratch);
        return;
      }
    }
    const float* next = nullptr;
    if (task + 1 < loop.size()) {
      const HeadSpan after = loop[task + 1];
      next = state_.Unpacked(after.segment, after.first);
    }
    RunSteps(
        head.segment, head.first, 1,
        Rule<Inputs>(*this, batch, head, state.data(), next, scratch[change_]));
  });
}

void DeltaRecurrence::Run(std::span<const Segment> segments,
                          const DeltaRule& inputs, float* out,
                          size_t out_stride,
                          Workspace::Buffers& buffers) const {
  RunHeads(segments, inputs, {out, out_stride, options_.V}, buffers);
}

void DeltaRecurrence::Run(std::span<const Segment> segments,
                          const GeneralForm& inputs, float* out,
                          size_t out_stride,
                          Workspace::Buffers& buffers) const {
  RunHeads(segments, inputs, {out, out_stride, options_.V}, buffers);
}

HeadDecays DeltaRecurrence::AlphaOf(const HeadRows& alpha,
                                    const HeadRows& low) const {
  switch (options_.decay) {
    case Decay::kNone:
      return {.high = {ones_.data()}};
    case Decay::kKey:
      return {alpha, low};
    default:
      return {alpha, low, 0};
  }
}

// The chunk form of DeltaRecurrence: what a chunk writes under its keys is
// solved for, and is then what values are to a chunk of that decay.

void DeltaRecurrence::PlanChunks(WorkerScratchPlan& plan) {
  const size_t K = options_.K;
  const size_t V = options_.V;
  const bool key_decay = options_.decay == Decay::kKey;
  const size_t C = key_decay ? kKeyChunkTokens : kChunkTokens;
  at_.q = plan.Add(C * K);
  at_.k = plan.Add(C * K);
  at_.written = plan.Add(C * V);
  if (key_decay) {
    at_.alpha = plan.Add(C * K);
    at_.v = plan.Add(C * V);
    at_.parts = plan.Add(std::max(KeyReadFloats(K), KeyUpdateFloats(K)));
    return;
  }
  at_.scalar = ScalarChunkPlaces::Plan(K, V, plan);
}

void DeltaRecurrence::RunChunks(const Batch<DeltaRule>& batch,
                                const HeadSpan& head, float* state,
                                const WorkerScratch& scratch) const {
  const bool key_decay = options_.decay == Decay::kKey;
  const auto step = key_decay ? &DeltaRecurrence::RunKeyDecayChunk
                              : &DeltaRecurrence::RunScalarDecayChunk;
  ForChunks(head.segment, key_decay ? kKeyChunkTokens : kChunkTokens,
            [&](const RowChunk& chunk) {
              (this->*step)(batch, chunk, head.first, state, scratch);
            });
}

void DeltaRecurrence::RunScalarDecayChunk(const Batch<DeltaRule>& batch,
                                          const RowChunk& chunk, size_t head,
                                          float* state,
                                          const WorkerScratch& scratch) const {
  const Options& o = options_;
  const DeltaRule& in = batch.inputs;
  const ChunkRows q = chunk.Pack(in.q, head, o.K, scratch[at_.q]);
  const ChunkRows k = chunk.Pack(in.k, head, o.K, scratch[at_.k]);
  const Fading fading = o.decay == Decay::kNone
                            ? FadingOfPowers(chunk.L, powers_.data())
                            : ChunkFading(chunk.L, chunk.Rows(in.alpha, head),
                                          chunk.Rows(in.alpha_low, head),
                                          scratch[at_.scalar.fading]);
  TransposeKeys(chunk.L, o.K, k, scratch[at_.scalar.keys]);
  ChunkScores(chunk.L, o.K, k, scratch[at_.scalar.keys],
              scratch[at_.scalar.scores]);
  SolveDeltaChunk({.L = chunk.L,
                   .K = o.K,
                   .V = o.V,
                   .fading = fading,
                   .k = k,
                   .v = chunk.Rows(in.v, head),
                   .beta = chunk.Rows(in.beta, head),
                   .key_scores = scratch[at_.scalar.scores],
                   .state = state,
                   .weights = scratch[at_.scalar.weights],
                   .u = scratch[at_.written]});
  RunScalarChunk({.L = chunk.L,
                  .K = o.K,
                  .V = o.V,
                  .scale = o.scale,
                  .fading = fading,
                  .q = q,
                  .k = k,
                  .v = {scratch[at_.written], o.V},
                  .state = state,
                  .o = batch.out.At(chunk.first_row, head),
                  .o_stride = batch.out.row_stride},
                 at_.scalar, scratch);
}

void DeltaRecurrence::RunKeyDecayChunk(const Batch<DeltaRule>& batch,
                                       const RowChunk& chunk, size_t head,
                                       float* state,
                                       const WorkerScratch& scratch) const {
  const Options& o = options_;
  const DeltaRule& in = batch.inputs;
  const ChunkRows alpha = chunk.Pack(in.alpha, head, o.K, scratch[at_.alpha]);
  const ChunkRows k = chunk.Pack(in.k, head, o.K, scratch[at_.k]);
  float* const parts = scratch[at_.parts];
  SolveKeyDecayDelta({.L = chunk.L,
                      .K = o.K,
                      .V = o.V,
                      .alpha = alpha,
                      .k = k,
                      .v = chunk.Pack(in.v, head, o.V, scratch[at_.v]),
                      .beta = chunk.Rows(in.beta, head),
                      .state = state,
                      .scratch = parts,
                      .u = scratch[at_.written]});
  const ChunkRows u = {scratch[at_.written], o.V};
  ReadKeyDecayChunk({.L = chunk.L,
                     .K = o.K,
                     .V = o.V,
                     .scale = o.scale,
                     .alpha = alpha,
                     .q = chunk.Pack(in.q, head, o.K, scratch[at_.q]),
                     .k = k,
                     .v = u,
                     .state = state,
                     .scratch = parts,
                     .o = batch.out.At(chunk.first_row, head),
                     .o_stride = batch.out.row_stride});
  UpdateKeyDecayChunk({.L = chunk.L,
                       .K = o.K,
                       .V = o.V,
                       .alpha = alpha,
                       .alpha_low = chunk.Rows(in.alpha_low, head),
                       .k = k,
                       .v = u,
                       .state = state,
                       .scratch = parts});
}

}  // namespace steadystate
