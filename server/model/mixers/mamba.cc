// Mamba-1 (parts/mamba1_layer.h), as model_type "mamba" of transformers and
// fla. In "falcon_mamba" (TII 2024) low, B and C are each normalised, x /
// sqrt(mean x^2 + mixer_rms_eps), before they are used; it is else the same.
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/base/status_macros.h"
#include "server/checkpoint/config.h"
#include "server/model/mixers/mixers.h"
#include "server/model/parts/mamba1_layer.h"
#include "server/model/parts/mamba_layer.h"

namespace steadystate {
namespace {

constexpr absl::string_view kUsedKeys[] = {
    "state_size",    "expand",     "conv_kernel",    "use_bias",
    "use_conv_bias", "hidden_act", "time_step_rank", "dt_rank"};
// How weights are initialised, how a library computes, and what converted
// checkpoints keep of mamba_ssm's own configuration.
constexpr absl::string_view kInertKeys[] = {"d_inner",
                                            "d_model",
                                            "dt_init_floor",
                                            "dt_init_scheme",
                                            "dt_max",
                                            "dt_min",
                                            "dt_scale",
                                            "fused_add_norm",
                                            "intermediate_size",
                                            "n_layer",
                                            "pad_vocab_size_multiple",
                                            "rescale_prenorm_residual",
                                            "residual_in_fp32",
                                            "rms_norm",
                                            "ssm_cfg",
                                            "time_step_floor",
                                            "time_step_init_scheme",
                                            "time_step_max",
                                            "time_step_min",
                                            "time_step_scale",
                                            "use_associative_scan",
                                            "use_mambapy"};
constexpr FixedKey kFixedKeys[] = {{"attn", "null"}};
// Of falcon_mamba beside the first. Its files state both expand and
// intermediate_size, of which the latter counts.
constexpr absl::string_view kFalconKeys[] = {
    "state_size", "expand",        "intermediate_size", "conv_kernel",
    "use_bias",   "use_conv_bias", "hidden_act",        "time_step_rank",
    "dt_rank",    "mixer_rms_eps"};
constexpr absl::string_view kFalconInertKeys[] = {"rescale_prenorm_residual",
                                                  "residual_in_fp32",
                                                  "time_step_floor",
                                                  "time_step_init_scheme",
                                                  "time_step_max",
                                                  "time_step_min",
                                                  "time_step_scale",
                                                  "use_associative_scan",
                                                  "use_falcon_mambapy",
                                                  "use_mambapy"};

absl::StatusOr<Mamba1Options> ReadOptions(const MixerBuilder& from) {
  const Config& config = from.config;
  Mamba1Options options;
  STEADYSTATE_ASSIGN_OR_RETURN(options.N,
                               config.Size("state_size", 16, {1, 65536}));
  STEADYSTATE_ASSIGN_OR_RETURN(
      options.rank,
      ReadMambaRank(from,
                    config.Has("dt_rank") ? "dt_rank" : "time_step_rank"));
  STEADYSTATE_ASSIGN_OR_RETURN(const MambaConv conv, ReadMambaConv(config));
  options.conv_taps = conv.taps;
  options.conv_bias = conv.bias;
  STEADYSTATE_ASSIGN_OR_RETURN(options.bias, ReadMambaBias(from));
  return options;
}

absl::StatusOr<std::unique_ptr<Mixer>> MakeMamba(const MixerBuilder& from) {
  STEADYSTATE_ASSIGN_OR_RETURN(Mamba1Options options, ReadOptions(from));
  STEADYSTATE_ASSIGN_OR_RETURN(options.E, ReadMambaWidth(from));
  return Mamba1Layer::Make(from, options);
}

absl::StatusOr<std::unique_ptr<Mixer>> MakeFalconMamba(
    const MixerBuilder& from) {
  STEADYSTATE_ASSIGN_OR_RETURN(Mamba1Options options, ReadOptions(from));
  STEADYSTATE_ASSIGN_OR_RETURN(
      options.E, from.config.Size("intermediate_size", 0, {1, 1 << 24}));
  if (options.E == 0) {
    STEADYSTATE_ASSIGN_OR_RETURN(options.E, ReadMambaWidth(from));
  }
  STEADYSTATE_ASSIGN_OR_RETURN(
      const double eps, from.config.Number("mixer_rms_eps", 1e-6, {0, 1}));
  options.norm = {.eps = static_cast<float>(eps)};
  return Mamba1Layer::Make(from, options);
}

// The defaults of transformers' MambaConfig, or of fla's.
absl::StatusOr<FamilyDefaults> ReadDefaults(const Config& config) {
  if (IsMambaOfFla(config)) {
    return FamilyDefaults{.hidden_size = 2048, .layers = 48, .norm_eps = 1e-5};
  }
  // transformers ties the head where the file does not say, and to 4.57.6 does
  // not write that down; 5.0 alone does not tie.
  const std::optional<LibraryVersion> version = TransformersVersion(config);
  const bool ties = version.has_value() && version->major < 5;
  return FamilyDefaults{.hidden_size = 768,
                        .layers = 32,
                        .vocab_size = 50280,
                        .norm_eps = 1e-5,
                        .bos_token = 0,
                        .eos_token = 0,
                        .tied_head = ties ? TiedHead::kYes : TiedHead::kNo};
}

}  // namespace

Family MambaFamily() {
  return {.model_type = "mamba",
          .source = "mamba.cc",
          .keys = {.used = kUsedKeys,
                   .inert = kInertKeys,
                   .must_be_default = kFixedKeys},
          .frame = MambaFrame(),
          .read_defaults = ReadDefaults,
          .layer = {.channels = ChannelMixer::kNone},
          .hybrid = false,
          .bf16_states = true,
          .make_token_mixer = MakeMamba};
}

Family FalconMambaFamily() {
  Family family = MambaFamily();
  family.model_type = "falcon_mamba";
  family.keys = {
      .used = kFalconKeys, .inert = kFalconInertKeys, .must_be_default = {}};
  family.defaults = {.hidden_size = 768,
                     .layers = 32,
                     .vocab_size = 50280,
                     .norm_eps = 1e-5,
                     .bos_token = 0,
                     .eos_token = 0,
                     .tied_head = TiedHead::kYes};
  family.frame.eps_key = "layer_norm_epsilon";
  family.read_defaults = nullptr;
  family.make_token_mixer = MakeFalconMamba;
  return family;
}

}  // namespace steadystate
