#include "server/model/parts/rwkv_layer.h"

#include <optional>

#include "server/base/status_macros.h"

namespace steadystate {
namespace {

// The width of the channel mixing: stated, or hidden_ratio times D, rounded up
// to a multiple of 32.
absl::StatusOr<size_t> ReadWidth(const MixerBuilder& builder,
                                 double default_ratio) {
  STEADYSTATE_ASSIGN_OR_RETURN(
      const double ratio,
      builder.config.Number("hidden_ratio", default_ratio, {0.01, 64}));
  STEADYSTATE_ASSIGN_OR_RETURN(
      const std::optional<size_t> stated,
      builder.config.OptionalSize("intermediate_size", {1, 1 << 20}));
  const double wanted = static_cast<double>(builder.hidden_size) * ratio;
  return stated.value_or((static_cast<size_t>(wanted) + 31) / 32 * 32);
}

}  // namespace

ModelFrame RwkvFrame() {
  return {.channel_norm = "ffn_norm",
          .channel_mixer = "ffn.",
          .norm = NormStyle::Kind::kLayer};
}

absl::Status ReadRwkvConfig(const Config& config, ModelConfig& model) {
  STEADYSTATE_ASSIGN_OR_RETURN(const bool bias, config.Bool("norm_bias", true));
  model.norm.bias = bias;
  model.layer_norm.bias = bias;
  STEADYSTATE_ASSIGN_OR_RETURN(const bool norm_first,
                               config.Bool("norm_first", true));
  if (norm_first) model.input_norm = "model.layers.0.pre_norm";
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Mixer>> MakeRwkvChannelMixing(
    const MixerBuilder& builder, const ChannelMixingNames& names,
    double default_ratio) {
  STEADYSTATE_ASSIGN_OR_RETURN(const size_t width,
                               ReadWidth(builder, default_ratio));
  STEADYSTATE_ASSIGN_OR_RETURN(
      const Activation act,
      builder.config.ActivationOf("hidden_act", "sqrelu"));
  return ChannelMixing::Make(width, act, builder, names);
}

}  // namespace steadystate
