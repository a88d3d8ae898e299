// Mamba-2 (Dao and Gu 2024; parts/mamba2_layer.h has the formulas), as
// model_type "mamba2" of transformers and fla. The norm is over each group's
// channels by themselves, as mamba_ssm, fla since 0.5.0 and transformers since
// 5.23.0 have it; before, both took all channels together, but not where they
// train with mamba_ssm's kernels. "norm_scope", "group" or "full", says which;
// without it transformers_version does.
// fla's files may say more: norm_before_gate (RMSNorm(y) * silu(z)), rmsnorm
// false (y * silu(z)) and D_has_hdim (D per channel). Transformers' may bear
// norm_before_gate, too, but there it changes nothing.
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/base/status_macros.h"
#include "server/checkpoint/config.h"
#include "server/model/mixers/mixers.h"
#include "server/model/parts/mamba2_layer.h"
#include "server/model/parts/mamba_layer.h"

namespace steadystate {
namespace {

constexpr absl::string_view kUsedKeys[] = {
    "num_heads",  "head_dim",        "state_size",      "n_groups",
    "expand",     "conv_kernel",     "use_bias",        "use_conv_bias",
    "hidden_act", "time_step_limit", "dt_limit",        "rmsnorm",
    "norm_scope", "D_has_hdim",      "norm_before_gate"};
// How weights are initialised, and how a library computes.
constexpr absl::string_view kInertKeys[] = {"A_init_range",
                                            "chunk_size",
                                            "conv_init",
                                            "dt_init_floor",
                                            "dt_max",
                                            "dt_min",
                                            "rescale_prenorm_residual",
                                            "residual_in_fp32",
                                            "rms_norm",
                                            "time_step_floor",
                                            "time_step_max",
                                            "time_step_min",
                                            "time_step_rank"};
constexpr FixedKey kFixedKeys[] = {{"attn", "null"}};

constexpr double kMaxHeads = 65536;
constexpr LibraryVersion kFirstWithGroups = {.major = 5, .minor = 23};

// What a config.json says of the norm.
struct NormReading {
  bool full = false;    // over all channels
  bool stated = false;  // by itself: norm_scope
};

absl::StatusOr<NormReading> ReadNorm(const Config& config) {
  STEADYSTATE_ASSIGN_OR_RETURN(const std::string scope,
                               config.String("norm_scope", ""));
  if (!scope.empty() && scope != "group" && scope != "full") {
    return config.Invalid("norm_scope", "it must be \"group\" or \"full\"");
  }
  if (!scope.empty()) return NormReading{scope == "full", true};
  // Keys that fla has since 0.5.0.
  for (const absl::string_view key : {"rmsnorm", "D_has_hdim", "dt_limit"}) {
    if (config.Has(key)) return NormReading{false, true};
  }
  const std::optional<LibraryVersion> version = TransformersVersion(config);
  return NormReading{version.has_value() && *version < kFirstWithGroups, false};
}

absl::StatusOr<size_t> ReadGroups(const Config& config, double heads) {
  return config.Size("n_groups", IsMambaOfFla(config) ? 1 : 8, {1, heads});
}

absl::Status ReadShape(const MixerBuilder& from, Mamba2Options& options) {
  const Config& config = from.config;
  STEADYSTATE_ASSIGN_OR_RETURN(const size_t E, ReadMambaWidth(from));
  STEADYSTATE_ASSIGN_OR_RETURN(options.P,
                               config.Size("head_dim", 64, {1, 65536}));
  STEADYSTATE_ASSIGN_OR_RETURN(options.N,
                               config.Size("state_size", 128, {1, 65536}));
  if (E % options.P != 0) {
    return config.Invalid(
        "head_dim",
        absl::StrCat("it must divide expand times hidden_size, ", E));
  }
  options.H = E / options.P;
  STEADYSTATE_ASSIGN_OR_RETURN(
      const size_t stated, config.Size("num_heads", options.H, {1, kMaxHeads}));
  if (stated != options.H) {
    return config.Invalid("num_heads",
                          absl::StrCat("it must be expand times hidden_size / "
                                       "head_dim, ",
                                       options.H));
  }
  STEADYSTATE_ASSIGN_OR_RETURN(
      options.G, ReadGroups(config, static_cast<double>(options.H)));
  if (options.H % options.G != 0) {
    return config.Invalid(
        "n_groups", absl::StrCat("it must divide num_heads, ", options.H));
  }
  return absl::OkStatus();
}

absl::Status ReadOutput(const Config& config, Mamba2Options& options) {
  STEADYSTATE_ASSIGN_OR_RETURN(options.skip_per_channel,
                               config.Bool("D_has_hdim", false));
  STEADYSTATE_ASSIGN_OR_RETURN(const NormReading norm, ReadNorm(config));
  STEADYSTATE_ASSIGN_OR_RETURN(const bool normed, config.Bool("rmsnorm", true));
  STEADYSTATE_ASSIGN_OR_RETURN(const bool norm_first,
                               config.Bool("norm_before_gate", false));
  options.norm = !normed     ? Mamba2Options::Norm::kNone
                 : norm.full ? Mamba2Options::Norm::kAll
                             : Mamba2Options::Norm::kGroup;
  options.gate_first = !(norm_first && IsMambaOfFla(config));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Mixer>> MakeMamba2(const MixerBuilder& from) {
  const Config& config = from.config;
  Mamba2Options options;
  STEADYSTATE_RETURN_IF_ERROR(ReadShape(from, options));
  // fla calls it dt_limit.
  STEADYSTATE_RETURN_IF_ERROR(ReadStepLimit(
      config, config.Has("dt_limit") ? "dt_limit" : "time_step_limit",
      options));
  STEADYSTATE_ASSIGN_OR_RETURN(options.in_bias, ReadMambaBias(from));
  options.out_bias = options.in_bias;
  STEADYSTATE_ASSIGN_OR_RETURN(const MambaConv conv, ReadMambaConv(config));
  options.conv_taps = conv.taps;
  options.conv_bias = conv.bias;
  STEADYSTATE_RETURN_IF_ERROR(ReadOutput(config, options));
  return Mamba2Layer::Make(from, options);
}

// Says over what the norm is taken where versions of the libraries differ.
absl::Status ReadConfig(const Config& config, ModelConfig& model) {
  STEADYSTATE_ASSIGN_OR_RETURN(const size_t groups,
                               ReadGroups(config, kMaxHeads));
  STEADYSTATE_ASSIGN_OR_RETURN(const NormReading norm, ReadNorm(config));
  if (groups == 1 || norm.stated) return absl::OkStatus();
  constexpr absl::string_view kAll =
      "over all channels, as in transformers before 5.23";
  constexpr absl::string_view kGroups = "over each group, as in mamba_ssm";
  const auto norm_is = [](absl::string_view scope) {
    return absl::StrCat("the norm of Mamba-2 is ", scope);
  };
  model.readings.push_back(
      norm.full ? ReadingOf(config, norm_is(kAll), "5.23.0", kGroups)
                : ReadingOf(config, norm_is(kGroups), "4.57.6", kAll));
  return absl::OkStatus();
}

// The defaults of transformers' Mamba2Config, or of fla's.
absl::StatusOr<FamilyDefaults> ReadDefaults(const Config& config) {
  if (IsMambaOfFla(config)) {
    return FamilyDefaults{.hidden_size = 2048, .layers = 48, .norm_eps = 1e-5};
  }
  return FamilyDefaults{.hidden_size = 4096,
                        .layers = 64,
                        .vocab_size = 32768,
                        .norm_eps = 1e-5,
                        .bos_token = 0};
}

}  // namespace

Family Mamba2Family() {
  return {.model_type = "mamba2",
          .source = "mamba2.cc",
          .keys = {.used = kUsedKeys,
                   .inert = kInertKeys,
                   .must_be_default = kFixedKeys},
          .frame = MambaFrame(),
          .read_defaults = ReadDefaults,
          .layer = {.channels = ChannelMixer::kNone},
          .hybrid = false,
          .read_config = ReadConfig,
          .make_token_mixer = MakeMamba2};
}

}  // namespace steadystate
