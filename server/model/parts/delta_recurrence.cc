#include "server/model/parts/delta_recurrence.h"

#include <algorithm>

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
  builder.scratch.Need(0, std::max(3 * options.K, made.ChunkFloats()) +
                              made.state_.scratch_floats());
  return made;
}

void DeltaRecurrence::Run(std::span<const Segment> segments,
                          const DeltaRule& inputs, float* out,
                          size_t out_stride,
                          Workspace::Buffers& buffers) const {
  const size_t heads = options_.heads;
  const auto run = [&](size_t i, size_t worker) {
    const Segment& segment = segments[i / heads];
    float* scratch = buffers.OfWorker(worker);
    if (InChunks(segment)) {
      RunChunks(segment, i % heads, inputs, scratch, out, out_stride);
    } else {
      RunHead(segment, i % heads, inputs, StateOf(segments, i + 1), scratch,
              out, out_stride);
    }
  };
  buffers.pool.ParallelFor(segments.size() * heads, run);
}

void DeltaRecurrence::Run(std::span<const Segment> segments,
                          const RankOne& inputs, float* out, size_t out_stride,
                          Workspace::Buffers& buffers) const {
  const size_t heads = options_.heads;
  const auto run = [&](size_t i, size_t worker) {
    RunHead(segments[i / heads], i % heads, inputs, StateOf(segments, i + 1),
            buffers.OfWorker(worker), out, out_stride);
  };
  buffers.pool.ParallelFor(segments.size() * heads, run);
}

template <typename Inputs>
void DeltaRecurrence::RunHead(const Segment& segment, size_t head,
                              const Inputs& inputs, const float* next,
                              float* scratch, float* out,
                              size_t out_stride) const {
  const Options& o = options_;
  float* const opened = scratch + 3 * o.K;
  float* const state = state_.Open(segment, head, opened);
  for (size_t t = 0; t < segment.rows; ++t) {
    const size_t row = segment.first_row + t;
    const Move move = MoveOf(inputs, row, head, scratch);
    const bool last = t + 1 == segment.rows;
    RankOneDecayStep({.K = o.K,
                      .V = o.V,
                      .scale = o.scale,
                      .q = inputs.q.At(row, head),
                      .k = move.k,
                      .v = inputs.v.At(row, head),
                      .o = out + row * out_stride + head * o.V},
                     move.alpha, {move.a, move.b}, state,
                     last ? next : nullptr);
  }
  state_.Close(segment, head, opened);
}

const float* DeltaRecurrence::StateOf(std::span<const Segment> segments,
                                      size_t task) const {
  const size_t heads = options_.heads;
  if (task >= segments.size() * heads) return nullptr;
  return state_.Unpacked(segments[task / heads], task % heads);
}

// S^T k after the decay is S^T (alpha o k) before it, and
//   k u^T = -(beta k) (S^T (alpha o k))^T + (beta k) v^T.
DeltaRecurrence::Move DeltaRecurrence::MoveOf(const DeltaRule& inputs,
                                              size_t row, size_t head,
                                              float* scratch) const {
  const size_t K = options_.K;
  const float* k = inputs.k.At(row, head);
  const float beta = *inputs.beta.At(row, head);
  const Decays alpha = DecayOf(inputs.alpha, inputs.alpha_low, row, head);
  float* a = scratch;
  float* b = a + K;
  float* written = b + K;
  for (size_t i = 0; i < K; ++i) {
    a[i] = alpha.High(i) * k[i];
    written[i] = beta * k[i];
    b[i] = -written[i];
  }
  return {alpha, a, b, written};
}

DeltaRecurrence::Move DeltaRecurrence::MoveOf(const RankOne& inputs, size_t row,
                                              size_t head,
                                              float* /*scratch*/) const {
  return {DecayOf(inputs.alpha, inputs.alpha_low, row, head),
          inputs.a.At(row, head), inputs.b.At(row, head),
          inputs.k.At(row, head)};
}

Decays DeltaRecurrence::DecayOf(const HeadRows& alpha, const HeadRows& low,
                                size_t row, size_t head) const {
  if (options_.decay == Decay::kNone) return {ones_.data()};
  return {alpha.At(row, head),
          low.data == nullptr ? nullptr : low.At(row, head),
          options_.decay == Decay::kKey ? size_t{1} : size_t{0}};
}

}  // namespace steadystate
