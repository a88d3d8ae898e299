#include "server/model/parts/mlstm_recurrence.h"

#include <algorithm>
#include <cmath>

#include "kernels/recurrence/decay_steps.h"
#include "kernels/recurrence/normalizer.h"
#include "server/base/status_macros.h"

namespace steadystate {
namespace {

// What the gates of one token do to a head.
struct Gates {
  float forget;      // F, or nearly,
  float forget_low;  // and what that lacks
  float input;       // I
  double least;      // e^-m, the least denominator
};

// Moves the stabiliser m by one token.
Gates Stabilize(float log_input, float log_forget, double& m) {
  const double kept = static_cast<double>(log_forget) + m;
  const auto added = static_cast<double>(log_input);
  m = std::max(kept, added);
  const double forget = std::exp(kept - m);
  const auto nearest = static_cast<float>(forget);
  return {nearest, static_cast<float>(forget - static_cast<double>(nearest)),
          static_cast<float>(std::exp(added - m)), std::exp(-m)};
}

}  // namespace

absl::StatusOr<MlstmRecurrence> MlstmRecurrence::Make(
    const MixerBuilder& builder, const Options& options) {
  MlstmRecurrence made;
  made.options_ = options;
  const size_t H = options.heads;
  STEADYSTATE_ASSIGN_OR_RETURN(
      made.memory_,
      HeadMatrices::Make(builder, "C", {H, options.K, options.V}));
  STEADYSTATE_ASSIGN_OR_RETURN(
      made.normalizer_,
      builder.state.AddFixedDoubles(builder.layer, "n", {H, options.K}));
  STEADYSTATE_ASSIGN_OR_RETURN(
      made.stabilizer_, builder.state.AddFixedDoubles(builder.layer, "m", {H}));
  builder.scratch.Need(0, options.K + made.memory_.scratch_floats());
  return made;
}

void MlstmRecurrence::Run(std::span<const Segment> segments,
                          const Inputs& inputs, float* out, size_t out_stride,
                          Workspace::Buffers& buffers) const {
  const size_t H = options_.heads;
  buffers.pool.ParallelFor(segments.size() * H, [&](size_t i, size_t worker) {
    RunHead(segments[i / H], i % H, inputs, buffers.OfWorker(worker), out,
            out_stride);
  });
}

void MlstmRecurrence::RunHead(const Segment& segment, size_t head,
                              const Inputs& inputs, float* scratch, float* out,
                              size_t out_stride) const {
  const size_t K = options_.K;
  const size_t V = options_.V;
  float* const opened = scratch + K;
  float* const memory = memory_.Open(segment, head, opened);
  double* sums = normalizer_.In(segment.state) + head * K;
  double& m = stabilizer_.In(segment.state)[head];
  float* key = scratch;
  for (size_t t = 0; t < segment.rows; ++t) {
    const size_t row = segment.first_row + t;
    const float* q = inputs.q.At(row, head);
    const float* k = inputs.k.At(row, head);
    const Gates gates = Stabilize(*inputs.log_input.At(row, head),
                                  *inputs.log_forget.At(row, head), m);
    const Decays decay = {&gates.forget, &gates.forget_low, 0};
    for (size_t i = 0; i < K; ++i) key[i] = gates.input * k[i];
    float* o = out + row * out_stride + head * V;
    KeyDecayStep({.K = K,
                  .V = V,
                  .scale = options_.scale,
                  .q = q,
                  .k = key,
                  .v = inputs.v.At(row, head),
                  .o = o},
                 decay, memory);
    const double weight = static_cast<double>(options_.scale) *
                          NormalizerStep(K, decay, q, key, sums);
    const auto factor =
        static_cast<float>(1.0 / (std::max(std::abs(weight), gates.least) +
                                  static_cast<double>(options_.eps)));
    for (size_t j = 0; j < V; ++j) o[j] *= factor;
  }
  memory_.Close(segment, head, opened);
}

}  // namespace steadystate
