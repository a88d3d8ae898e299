#include "server/model/parts/log_feature_recurrence.h"

#include <algorithm>

#include "kernels/recurrence/growing_sum.h"
#include "kernels/recurrence/normalizer.h"
#include "server/base/status_macros.h"
#include "server/model/parts/head_loop.h"

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
  WorkerScratchPlan plan(builder.scratch);
  made.at_ = {.exact_factors = plan.Add<double>(F),
              .factors = plan.Add(F),
              .key = plan.Add(F),
              .weights = plan.Add(F)};
  made.options_ = options;
  return made;
}

// The rule of one head over a segment.
class LogFeatureRecurrence::Rule {
 public:
  Rule(const LogFeatureRecurrence& of, const Segment& segment, size_t head,
       const Inputs& inputs, const HeadOutputs& out,
       const WorkerScratch& scratch)
      : of_(of),
        head_(head),
        first_(segment.first_row),
        begins_(segment.position == 0),
        inputs_(inputs),
        out_(out),
        state_(of.state_.In(segment.state) +
               head * of.options_.F * of.options_.V),
        max_(of.max_.In(segment.state) + head * of.options_.F),
        sums_(of.sums_.In(segment.state) + head * of.options_.F),
        exact_factors_(scratch[of.at_.exact_factors]),
        factors_(scratch[of.at_.factors]),
        key_(scratch[of.at_.key]),
        weights_(scratch[of.at_.weights]) {}

  void Take(size_t row) {
    const size_t F = of_.options_.F;
    const bool first = begins_ && row == first_;
    LogFeatureKey(F, first, inputs_.k.At(row, head_), max_, factors_, key_);
    NormalizerStep(F, {factors_}, key_, key_, sums_);
    std::copy_n(factors_, F, exact_factors_);
  }
  void Move(size_t row, size_t h) {
    GrowingSumStep(Weigh(row, h), exact_factors_, state_);
  }
  void Read(size_t row, size_t h) { GrowingSumRead(Weigh(row, h), state_); }

 private:
  // The query's weights, after the sums moved, and what kernels take of it.
  HeadToken Weigh(size_t row, size_t h) {
    const double divisor =
        of_.Weigh(inputs_.q.At(row, h), max_, sums_, weights_);
    return {.K = of_.options_.F,
            .V = of_.options_.V,
            .scale = static_cast<float>(1.0 / divisor),
            .q = weights_,
            .k = key_,
            .v = inputs_.v.At(row, head_),
            .o = out_.At(row, h)};
  }

  const LogFeatureRecurrence& of_;
  const size_t head_;
  const size_t first_;  // row
  const bool begins_;   // the session
  const Inputs& inputs_;
  const HeadOutputs& out_;
  double* const state_;
  float* const max_;
  double* const sums_;
  double* const exact_factors_;  // f64[F]
  float* const factors_;         // f32[F]
  float* const key_;             // f32[F]
  float* const weights_;         // f32[F]
};

void LogFeatureRecurrence::Run(std::span<const Segment> segments,
                               const Inputs& inputs, float* out,
                               size_t out_stride,
                               Workspace::Buffers& buffers) const {
  const HeadOutputs outputs = {out, out_stride, options_.V};
  const size_t group = options_.query_heads / options_.state_heads;
  const HeadLoop loop(segments, options_.state_heads);
  loop.Run(buffers, [&](size_t task, const WorkerScratch& scratch) {
    const auto [segment, head, end] = loop[task];
    RunSteps(segment, head, group,
             Rule(*this, segment, head, inputs, outputs, scratch));
  });
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
