#include "server/model/parts/log_feature_recurrence.h"

#include <algorithm>

#include "kernels/recurrence/growing_sum.h"
#include "kernels/recurrence/normalizer.h"
#include "server/base/status_macros.h"

namespace steadystate {

absl::StatusOr<LogFeatureRecurrence> LogFeatureRecurrence::Make(
    const MixerBuilder& builder, const Options& options) {
  LogFeatureRecurrence made;
  const size_t G = options.state_heads;
  const size_t F = options.F;
  StateLayoutBuilder& state = builder.state;
  STEADYSTATE_ASSIGN_OR_RETURN(
      made.state_,
      state.AddDoubleMatrices(builder.layer, "S", {G, F, options.V}));
  STEADYSTATE_ASSIGN_OR_RETURN(
      made.sums_, state.AddFixedDoubles(builder.layer, "Z", {G, F}));
  STEADYSTATE_ASSIGN_OR_RETURN(made.max_,
                               state.AddFixed(builder.layer, "max", {G, F}));
  builder.scratch.Need(0, 5 * F);
  made.options_ = options;
  return made;
}

void LogFeatureRecurrence::Run(std::span<const Segment> segments,
                               const Inputs& inputs, float* out,
                               size_t out_stride,
                               Workspace::Buffers& buffers) const {
  const size_t G = options_.state_heads;
  buffers.pool.ParallelFor(segments.size() * G, [&](size_t i, size_t worker) {
    RunHead(segments[i / G], i % G, inputs, buffers.OfWorker(worker), out,
            out_stride);
  });
}

void LogFeatureRecurrence::RunHead(const Segment& segment, size_t head,
                                   const Inputs& inputs, float* scratch,
                                   float* out, size_t out_stride) const {
  const size_t F = options_.F;
  const size_t V = options_.V;
  const size_t group = options_.query_heads / options_.state_heads;
  double* state = state_.In(segment.state) + head * F * V;
  float* max = max_.In(segment.state) + head * F;
  double* sums = sums_.In(segment.state) + head * F;
  auto* exact_factors = reinterpret_cast<double*>(scratch);
  float* factors = scratch + 2 * F;
  float* key = scratch + 3 * F;
  float* weights = scratch + 4 * F;
  for (size_t t = 0; t < segment.rows; ++t) {
    const size_t row = segment.first_row + t;
    const float* v = inputs.v.At(row, head);
    // The first query head of a group moves the state, the others read it.
    bool moves = segment.pass != Pass::kRead;
    if (moves) {
      const bool first = segment.position + t == 0;
      LogFeatureKey(F, first, inputs.k.At(row, head), max, factors, key);
      NormalizerStep(F, {factors}, key, key, sums);
      std::copy_n(factors, F, exact_factors);
    }
    for (size_t h = head * group; h < (head + 1) * group; ++h) {
      float* o = out + row * out_stride + h * V;
      const double divisor = Weigh(inputs.q.At(row, h), max, sums, weights);
      const auto scale = static_cast<float>(1.0 / divisor);
      if (moves) {
        GrowingSumStep({.K = F,
                        .V = V,
                        .scale = scale,
                        .q = weights,
                        .k = key,
                        .v = v,
                        .o = o},
                       exact_factors, state);
      } else {
        GrowingSumRead({.K = F, .V = V, .scale = scale, .q = weights, .o = o},
                       state);
      }
      moves = false;
    }
  }
}

double LogFeatureRecurrence::Weigh(const float* q, const float* max,
                                   const double* sums, float* weights) const {
  const size_t F = options_.F;
  if (options_.readout == Readout::kRatio) {
    LogFeatureQuery(F, q, max, weights);
    return NormalizerRead(F, weights, sums);
  }
  for (size_t c = 0; c < F; ++c) {
    weights[c] = static_cast<float>(static_cast<double>(q[c]) / sums[c]);
  }
  return 1;
}

}  // namespace steadystate
