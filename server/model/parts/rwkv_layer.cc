#include "server/model/parts/rwkv_layer.h"

#include <optional>

#include "server/base/status_macros.h"
#include "server/model/mixers/registry.h"

namespace steadystate {
namespace {

// The width of the channel mixing: stated, or hidden_ratio times D, rounded up
// to a multiple of 32.
absl::StatusOr<size_t> ReadWidth(const ModelConfig& model,
                                 const Config& config) {
  STEADYSTATE_ASSIGN_OR_RETURN(
      const double ratio,
      config.Number("hidden_ratio", model.family->defaults.hidden_ratio,
                    {0.01, 64}));
  STEADYSTATE_ASSIGN_OR_RETURN(
      const std::optional<size_t> stated,
      config.OptionalSize("intermediate_size", {1, 1 << 20}));
  const double wanted = static_cast<double>(model.hidden_size) * ratio;
  return stated.value_or((static_cast<size_t>(wanted) + 31) / 32 * 32);
}

}  // namespace

absl::Status ReadRwkvConfig(const Config& config, ModelConfig& model) {
  STEADYSTATE_ASSIGN_OR_RETURN(model.norm.bias, config.Bool("norm_bias", true));
  STEADYSTATE_ASSIGN_OR_RETURN(const bool norm_first,
                               config.Bool("norm_first", true));
  if (norm_first) model.input_norm = "model.layers.0.pre_norm";
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ResidualStep>> MakeRwkvLayer(
    const ModelConfig& config, const MixerBuilder& builder,
    const ChannelMixingNames& names) {
  const size_t D = config.hidden_size;
  STEADYSTATE_ASSIGN_OR_RETURN(const size_t width,
                               ReadWidth(config, builder.config));
  STEADYSTATE_ASSIGN_OR_RETURN(
      const Activation act,
      builder.config.ActivationOf("hidden_act", "sqrelu"));
  std::vector<ResidualStep> steps(2);
  STEADYSTATE_ASSIGN_OR_RETURN(
      steps[0].norm, Norm::Make(config.norm, builder.weights, "attn_norm", D));
  STEADYSTATE_ASSIGN_OR_RETURN(
      steps[1].norm, Norm::Make(config.norm, builder.weights, "ffn_norm", D));
  STEADYSTATE_ASSIGN_OR_RETURN(steps[0].mixer,
                               MakeTokenMixer(config, builder.Child("attn.")));
  STEADYSTATE_ASSIGN_OR_RETURN(
      steps[1].mixer,
      ChannelMixing::Make(width, act, builder.Child("ffn."), names));
  return steps;
}

}  // namespace steadystate
