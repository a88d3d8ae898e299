#include "server/model/parts/delta_recurrence.h"

#include <algorithm>

#include "kernels/recurrence/rank_one_decay.h"
#include "server/base/status_macros.h"

namespace steadystate {

absl::StatusOr<DeltaRecurrence> DeltaRecurrence::Make(
    const MixerBuilder& builder, const Options& options) {
  DeltaRecurrence made;
  STEADYSTATE_ASSIGN_OR_RETURN(
      made.state_,
      builder.state.AddFixed(builder.layer, "S",
                             {options.heads, options.K, options.V}));
  builder.scratch.Need(0, 4 * options.K);
  made.ones_.assign(options.K, 1.0f);
  made.options_ = options;
  return made;
}

void DeltaRecurrence::Run(std::span<const Segment> segments,
                          const DeltaRule& inputs, float* out,
                          size_t out_stride,
                          Workspace::Buffers& buffers) const {
  RunHeads(segments, inputs, out, out_stride, buffers);
}

void DeltaRecurrence::Run(std::span<const Segment> segments,
                          const RankOne& inputs, float* out, size_t out_stride,
                          Workspace::Buffers& buffers) const {
  RunHeads(segments, inputs, out, out_stride, buffers);
}

template <typename Inputs>
void DeltaRecurrence::RunHeads(std::span<const Segment> segments,
                               const Inputs& inputs, float* out,
                               size_t out_stride,
                               Workspace::Buffers& buffers) const {
  const Options& o = options_;
  buffers.pool.ParallelFor(segments.size() * o.heads, [&](size_t i,
                                                          size_t worker) {
    const Segment& segment = segments[i / o.heads];
    const size_t head = i % o.heads;
    float* state = state_.In(segment.state) + head * o.K * o.V;
    for (size_t t = 0; t < segment.rows; ++t) {
      const size_t row = segment.first_row + t;
      const Move move = MoveOf(inputs, row, head, buffers.OfWorker(worker));
      RankOneDecayStep(o.K, o.V, o.scale, move.alpha, move.a, move.b,
                       inputs.q.At(row, head), move.k, inputs.v.At(row, head),
                       state, out + row * out_stride + head * o.V);
    }
  });
}

// S^T k after the decay is S^T (alpha o k) before it, and
//   k u^T = -(beta k) (S^T (alpha o k))^T + (beta k) v^T.
DeltaRecurrence::Move DeltaRecurrence::MoveOf(const DeltaRule& inputs,
                                              size_t row, size_t head,
                                              float* scratch) const {
  const size_t K = options_.K;
  const float* k = inputs.k.At(row, head);
  const float beta = *inputs.beta.At(row, head);
  const float* alpha = DecayOf(inputs.alpha, row, head, scratch);
  float* a = scratch + K;
  float* b = a + K;
  float* written = b + K;
  for (size_t i = 0; i < K; ++i) {
    a[i] = alpha[i] * k[i];
    written[i] = beta * k[i];
    b[i] = -written[i];
  }
  return {alpha, a, b, written};
}

DeltaRecurrence::Move DeltaRecurrence::MoveOf(const RankOne& inputs, size_t row,
                                              size_t head,
                                              float* scratch) const {
  return {DecayOf(inputs.alpha, row, head, scratch), inputs.a.At(row, head),
          inputs.b.At(row, head), inputs.k.At(row, head)};
}

const float* DeltaRecurrence::DecayOf(const HeadRows& alpha, size_t row,
                                      size_t head, float* factors) const {
  if (options_.decay == Decay::kNone) return ones_.data();
  if (options_.decay == Decay::kKey) return alpha.At(row, head);
  std::fill_n(factors, options_.K, *alpha.At(row, head));
  return factors;
}

}  // namespace steadystate
