#include "server/model/parts/mlstm_recurrence.h"

#include <algorithm>
#include <cmath>

#include "kernels/recurrence/decay_steps.h"
#include "kernels/recurrence/normalizer.h"
#include "server/base/status_macros.h"
#include "server/model/parts/head_loop.h"

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
  WorkerScratchPlan plan(builder.scratch);
  made.room_ = made.memory_.PlanRoom(plan);
  made.key_ = plan.Add(options.K);
  return made;
}

// The rule of one head over a segment.
class MlstmRecurrence::Rule {
 public:
  // `key` is f32[K] scratch.
  Rule(const MlstmRecurrence& of, const Segment& segment, size_t head,
       const Inputs& inputs, const HeadOutputs& out, float* memory, float* key)
      : o_(of.options_),
        inputs_(inputs),
        out_(out),
        memory_(memory),
        sums_(of.normalizer_.In(segment.state) + head * o_.K),
        m_(of.stabilizer_.In(segment.state)[head]),
        head_(head),
        key_(key) {}

  void Take(size_t row) {
    gates_ = Stabilize(*inputs_.log_input.At(row, head_),
                       *inputs_.log_forget.At(row, head_), m_);
    const float* k = inputs_.k.At(row, head_);
    for (size_t i = 0; i < o_.K; ++i) key_[i] = gates_.input * k[i];
  }
  void Move(size_t row, size_t head) {
    const float* q = inputs_.q.At(row, head);
    const Decays decay = {&gates_.forget, &gates_.forget_low, 0};
    float* o = out_.At(row, head);
    KeyDecayStep({.K = o_.K,
                  .V = o_.V,
                  .scale = o_.scale,
                  .q = q,
                  .k = key_,
                  .v = inputs_.v.At(row, head),
                  .o = o},
                 decay, memory_);
    const double weight = static_cast<double>(o_.scale) *
                          NormalizerStep(o_.K, decay, q, key_, sums_);
    const auto factor =
        static_cast<float>(1.0 / (std::max(std::abs(weight), gates_.least) +
                                  static_cast<double>(o_.eps)));
    for (size_t j = 0; j < o_.V; ++j) o[j] *= factor;
  }

 private:
  const Options& o_;
  const Inputs& inputs_;
  const HeadOutputs& out_;
  float* const memory_;
  double* const sums_;
  double& m_;
  const size_t head_;
  float* const key_;
  Gates gates_{};
};

void MlstmRecurrence::Run(std::span<const Segment> segments,
                          const Inputs& inputs, float* out, size_t out_stride,
                          Workspace::Buffers& buffers) const {
  const HeadOutputs outputs = {out, out_stride, options_.V};
  const HeadLoop loop(segments, options_.heads);
  loop.Run(buffers, [&](size_t task, const WorkerScratch& scratch) {
    const auto [segment, head, end] = loop[task];
    const OpenHeadMatrix memory(memory_, segment, head, room_, scratch);
    RunSteps(segment, head, 1,
             Rule(*this, segment, head, inputs, outputs, memory.data(),
                  scratch[key_]));
  });
}

}  // namespace steadystate
