#include "server/model/layer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "kernels/pointwise/activation.h"
#include "server/base/status_macros.h"
#include "server/model/mixers/mixers.h"
#include "server/model/parts/latent_attention.h"
#include "server/model/parts/mixer_sum.h"
#include "server/model/parts/projection.h"
#include "server/model/workspace.h"

namespace steadystate {

absl::StatusOr<std::unique_ptr<Mixer>> MakeTokenMixer(
    const ModelConfig& config, const MixerBuilder& builder) {
  const Family& family = *config.family;
  const ModelFrame& names = family.frame;
  const LayerPlan& plan = config.layers[builder.layer];
  const absl::string_view softmax_name =
      names.softmax_mixer.empty() ? names.token_mixer : names.softmax_mixer;
  const auto make_softmax = [&](const MixerBuilder& from) {
    return MakeSoftmaxAttention(plan.softmax, from.Child(softmax_name));
  };
  const auto make_family = [&](const MixerBuilder& from) {
    return family.make_token_mixer(from.Child(names.token_mixer));
  };
  switch (plan.tokens) {
    case TokenMixer::kSoftmax:
      return make_softmax(builder);
    case TokenMixer::kLatent:
      return MakeLatentAttention(plan.latent, builder.Child(softmax_name));
    case TokenMixer::kNone:
      return family.make_channel_mixer(builder.Child(names.token_mixer));
    case TokenMixer::kBoth:
      return MixerSum::Make(builder, {{plan.family_scale, make_family},
                                      {plan.softmax_scale, make_softmax}});
    case TokenMixer::kFamily:
      break;
  }
  return make_family(builder);
}

absl::StatusOr<std::unique_ptr<Mixer>> MakeChannelMixer(
    const ModelConfig& config, const MixerBuilder& builder) {
  if (config.layers[builder.layer].channels == ChannelMixer::kGatedMlp) {
    return Mlp::Make(config.intermediate_size, config.mlp_activation, builder,
                     config.family->frame.mlp, config.mlp_scale);
  }
  return config.family->make_channel_mixer(builder);
}

namespace {

// A norm by the one or the other name.
absl::StatusOr<Norm> MakeNorm(const ModelConfig& config,
                              const WeightScope& weights,
                              absl::string_view name, absl::string_view other) {
  if (!other.empty() && weights.Has(absl::StrCat(other, ".weight"))) {
    name = other;
  }
  return Norm::Make(config.layer_norm, weights, name, config.hidden_size);
}

}  // namespace

absl::StatusOr<Layer> Layer::Make(const ModelConfig& config,
                                  const MixerBuilder& builder) {
  const ModelFrame& names = config.family->frame;
  const LayerPlan& plan = config.layers[builder.layer];
  const bool mixes_channels = plan.channels != ChannelMixer::kNone;
  std::vector<Step> steps(mixes_channels ? 2 : 1);
  STEADYSTATE_ASSIGN_OR_RETURN(
      steps[0].norm,
      plan.norm_after ? MakeNorm(config, builder.weights, names.token_post_norm,
                                 names.other_token_post_norm)
                      : MakeNorm(config, builder.weights, names.token_norm,
                                 names.other_token_norm));
  if (mixes_channels) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        steps[1].norm,
        plan.norm_after
            ? MakeNorm(config, builder.weights, names.channel_post_norm, "")
            : MakeNorm(config, builder.weights, names.channel_norm,
                       names.other_channel_norm));
  }
  STEADYSTATE_ASSIGN_OR_RETURN(steps[0].mixer, MakeTokenMixer(config, builder));
  if (mixes_channels) {
    MixerBuilder from = builder.Child(names.channel_mixer);
    if (!names.other_channel_mixer.empty()) {
      const MixerBuilder other = builder.Child(names.other_channel_mixer);
      if (other.weights.HasAny()) from.weights = other.weights;
    }
    STEADYSTATE_ASSIGN_OR_RETURN(steps[1].mixer,
                                 MakeChannelMixer(config, from));
  }
  return Layer(std::move(steps), plan.norm_after, config.residual_multiplier);
}

void Layer::AddMixed(const Step& step, float* mixed, float* residual) const {
  const size_t D = step.norm.size();
  if (norm_after_) step.norm.Apply(mixed, mixed);
  Scale(multiplier_, D, mixed);
  AddTo(D, mixed, residual);
}

void Layer::Forward(std::span<const Segment> segments, size_t rows,
                    float* residual, Workspace& workspace) const {
  Workspace::Buffers& buffers = workspace.buffers();
  float* normed = buffers.normed.data();
  float* mixed = buffers.mixed.data();
  const size_t D = steps_.front().norm.size();
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    buffers.ForRows(rows, 2 * D, [&](size_t row, size_t) {
      float* const h = residual + row * D;
      if (i > 0) AddMixed(steps_[i - 1], mixed + row * D, h);
      if (!norm_after_) step.norm.Apply(h, normed + row * D);
    });
    step.mixer->Forward(segments, rows, norm_after_ ? residual : normed, mixed,
                        workspace);
  }
  buffers.ForRows(rows, D, [&](size_t row, size_t) {
    AddMixed(steps_.back(), mixed + row * D, residual + row * D);
  });
}

// A later step with a state would have to absorb what the first one puts out
// for the whole sequence.
bool Layer::bidirectional() const {
  return steps_.front().mixer->bidirectional() &&
         std::all_of(steps_.begin() + 1, steps_.end(),
                     [](const Step& step) { return step.mixer->per_token(); });
}

void Layer::Absorb(std::span<const Segment> segments, size_t rows,
                   const float* residual, Workspace& workspace) const {
  Workspace::Buffers& buffers = workspace.buffers();
  float* normed = buffers.normed.data();
  const Step& first = steps_.front();
  const size_t D = first.norm.size();
  if (!norm_after_) {
    buffers.ForRows(rows, D, [&](size_t row, size_t) {
      first.norm.Apply(residual + row * D, normed + row * D);
    });
  }
  first.mixer->Forward(segments, rows, norm_after_ ? residual : normed,
                       buffers.mixed.data(), workspace);
}

}  // namespace steadystate
