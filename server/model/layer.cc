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

absl::Status Layer::TakeNorms(const ModelConfig& config,
                              const MixerBuilder& builder, bool channels,
                              Step& step) {
  const ModelFrame& names = config.family->frame;
  const NormPlace place = config.layers[builder.layer].norms;
  if (place != NormPlace::kAfter) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        step.before, channels
                         ? MakeNorm(config, builder.weights, names.channel_norm,
                                    names.other_channel_norm)
                         : MakeNorm(config, builder.weights, names.token_norm,
                                    names.other_token_norm));
  }
  if (place != NormPlace::kBefore) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        step.after,
        channels
            ? MakeNorm(config, builder.weights, names.channel_post_norm, "")
            : MakeNorm(config, builder.weights, names.token_post_norm,
                       names.other_token_post_norm));
  }
  return absl::OkStatus();
}

absl::StatusOr<Layer> Layer::Make(const ModelConfig& config,
                                  const MixerBuilder& builder) {
  const ModelFrame& names = config.family->frame;
  const LayerPlan& plan = config.layers[builder.layer];
  const bool mixes_channels = plan.channels != ChannelMixer::kNone;
  std::vector<Step> steps(mixes_channels ? 2 : 1);
  for (size_t i = 0; i < steps.size(); ++i) {
    STEADYSTATE_RETURN_IF_ERROR(TakeNorms(config, builder, i > 0, steps[i]));
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
  return Layer(std::move(steps), config.hidden_size,
               config.residual_multiplier);
}

void Layer::AddMixed(const Step& step, float* mixed, float* residual) const {
  if (step.after.has_value()) step.after->Apply(mixed, mixed);
  Scale(multiplier_, D_, mixed);
  AddTo(D_, mixed, residual);
}

void Layer::Forward(std::span<const Segment> segments, size_t rows,
                    float* residual, Workspace& workspace) const {
  Workspace::Buffers& buffers = workspace.buffers();
  float* normed = buffers.normed.data();
  float* mixed = buffers.mixed.data();
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    buffers.ForRows(rows, 2 * D_, [&](size_t row, size_t) {
      float* const h = residual + row * D_;
      if (i > 0) AddMixed(steps_[i - 1], mixed + row * D_, h);
      if (step.before.has_value()) step.before->Apply(h, normed + row * D_);
    });
    step.mixer->Forward(segments, rows,
                        step.before.has_value() ? normed : residual, mixed,
                        workspace);
  }
  buffers.ForRows(rows, D_, [&](size_t row, size_t) {
    AddMixed(steps_.back(), mixed + row * D_, residual + row * D_);
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
  if (first.before.has_value()) {
    buffers.ForRows(rows, D_, [&](size_t row, size_t) {
      first.before->Apply(residual + row * D_, normed + row * D_);
    });
  }
  first.mixer->Forward(segments, rows,
                       first.before.has_value() ? normed : residual,
                       buffers.mixed.data(), workspace);
}

}  // namespace steadystate
