#include "server/model/parts/mamba_layer.h"

#include <algorithm>
#include <array>

#include "absl/strings/string_view.h"
#include "kernels/pointwise/activation.h"
#include "server/base/status_macros.h"

namespace steadystate {

ModelFrame MambaFrame() {
  return {.model = "backbone.",
          .other_embeddings = "embedding.weight",
          .final_norm = "norm_f",
          .token_norm = "norm",
          .token_mixer = "mixer."};
}

bool IsMambaOfFla(const Config& config) {
  constexpr std::array<absl::string_view, 7> kKeysOfFla = {
      "norm_eps", "rmsnorm",   "D_has_hdim",        "dt_limit",
      "dt_rank",  "fuse_norm", "fuse_cross_entropy"};
  return std::ranges::any_of(
      kKeysOfFla, [&](absl::string_view key) { return config.Has(key); });
}

absl::StatusOr<size_t> ReadMambaWidth(const MixerBuilder& from) {
  STEADYSTATE_ASSIGN_OR_RETURN(const double expand,
                               from.config.Number("expand", 2, {0, 64}));
  const auto width =
      static_cast<size_t>(expand * static_cast<double>(from.hidden_size));
  if (width == 0) {
    return from.config.Invalid("expand",
                               "hidden_size times it must be at least 1");
  }
  return width;
}

absl::StatusOr<MambaConv> ReadMambaConv(const Config& config) {
  STEADYSTATE_ASSIGN_OR_RETURN(const size_t taps,
                               config.Size("conv_kernel", 4, {1, 64}));
  STEADYSTATE_ASSIGN_OR_RETURN(const bool bias,
                               config.Bool("use_conv_bias", true));
  STEADYSTATE_ASSIGN_OR_RETURN(const Activation activation,
                               config.ActivationOf("hidden_act", "silu"));
  // The kernels that such models are trained with know no other, and what the
  // libraries do instead with others has changed between their versions.
  if (activation != Activation::kSilu) {
    return config.Unsupported("hidden_act",
                              "supported are \"silu\" and \"swish\"");
  }
  return MambaConv{taps, bias ? Bias::kYes : Bias::kNone};
}

absl::StatusOr<Bias> ReadMambaBias(const MixerBuilder& from) {
  STEADYSTATE_ASSIGN_OR_RETURN(const bool bias,
                               from.config.Bool("use_bias", false));
  return bias ? Bias::kYes : Bias::kNone;
}

}  // namespace steadystate
