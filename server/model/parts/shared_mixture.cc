#include "server/model/parts/shared_mixture.h"

#include "absl/strings/string_view.h"
#include "kernels/pointwise/activation.h"
#include "server/base/status_macros.h"
#include "server/model/parts/hybrid_config.h"
#include "server/model/parts/projection.h"

namespace steadystate {

absl::Status ReadSharedRouter(const Config& config,
                              GroupedRouterDefaults defaults,
                              RouterOptions& router) {
  defaults.experts.count_key =
      Either(config, "num_experts", "num_local_experts");
  defaults.experts.chosen_key =
      Either(config, "num_experts_per_token", "num_experts_per_tok");
  defaults.divided_key = Either(config, "moe_renormalize", "norm_topk_prob");
  defaults.groups_key = Either(config, "num_expert_group", "n_group");
  return ReadGroupedRouter(config, defaults, router);
}

absl::Status ReadMixtureLayers(const Config& config, size_t dense_layers,
                               ModelConfig& model) {
  constexpr absl::string_view kKey = "mlp_layer_types";
  constexpr Choice<ChannelMixer> kKinds[] = {{"dense", ChannelMixer::kGatedMlp},
                                             {"sparse", ChannelMixer::kFamily}};
  const size_t layers = model.layers.size();
  STEADYSTATE_ASSIGN_OR_RETURN(
      const auto types,
      ReadLayerKinds(config, kKey, layers,
                     std::span<const Choice<ChannelMixer>>(kKinds)));
  STEADYSTATE_ASSIGN_OR_RETURN(
      const size_t dense,
      config.Size("first_k_dense_replace", dense_layers, {0, 1024}));
  for (size_t i = 0; i < layers; ++i) {
    const ChannelMixer by_number =
        i < dense ? ChannelMixer::kGatedMlp : ChannelMixer::kFamily;
    model.layers[i].channels = types.has_value() ? (*types)[i] : by_number;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Mixer>> MakeSharedMixture(
    const MixerBuilder& from, size_t shared_width, const MixtureLimits& limits,
    MixtureOptions options) {
  constexpr ExpertNames::Fused kFused[] = {
      {"experts.gate_up_proj", "experts.down_proj"}};
  options.names.fused = kFused;
  options.limit = limits.experts;
  const Config& config = from.config;
  STEADYSTATE_ASSIGN_OR_RETURN(
      const size_t shared,
      config.Size(Either(config, "num_shared_experts", "n_shared_experts"), 1,
                  {1, 1024}));
  const size_t width = shared * shared_width;
  const MlpScale scale = {.limit = limits.shared};
  options.make_shared = [width, scale](const MixerBuilder& builder) {
    return Mlp::Make(width, Activation::kSilu, builder.Child("shared_experts."),
                     {}, scale);
  };
  return Mixture::Make(from, options);
}

}  // namespace steadystate
