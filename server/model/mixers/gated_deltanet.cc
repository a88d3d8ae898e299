// Gated DeltaNet (Yang et al. 2024), as fla's model_type "gated_deltanet":
//   q, k = l2norm(silu(conv(W x))) per head,   v = silu(conv(W_v x))
//   alpha = exp(-exp(A_log) softplus(W_a x + dt_bias)),   beta = sigmoid(W_b x)
//   S <- alpha S,  u = beta (v - S^T k),  S <- S + k u^T,  o = K^-1/2 S^T q
//   y = W_o (RMSNorm(o, per head) act(W_g x)), the gate only with use_gate
// Value head j reads key head j / (HV / H). beta doubles with allow_neg_eigval.
#include "server/base/status_macros.h"
#include "server/model/mixers/mixers.h"
#include "server/model/parts/delta_layer.h"

namespace steadystate {
namespace {

constexpr absl::string_view kUsedKeys[] = {
    "num_heads", "num_v_heads",    "head_dim",
    "expand_v",  "use_gate",       "output_gate_activation",
    "conv_size", "use_short_conv", "allow_neg_eigval"};
constexpr absl::string_view kInertKeys[] = {"share_conv_kernel"};
constexpr FixedKey kFixedKeys[] = {{"conv_bias", "false"},
                                   {"use_mamba_gate", "true"}};

absl::StatusOr<std::unique_ptr<Mixer>> MakeGatedDeltanet(
    const MixerBuilder& builder) {
  const Config& config = builder.config;
  DeltaLayerOptions options;
  options.decay = Decay::kScalar;
  STEADYSTATE_RETURN_IF_ERROR(ReadValueHeads(config, 6, 256, 2, options));
  STEADYSTATE_RETURN_IF_ERROR(ReadDeltaOptions(config, options));
  STEADYSTATE_ASSIGN_OR_RETURN(const bool gate, config.Bool("use_gate", true));
  if (gate) options.gate = DeltaLayerOptions::Gate::kFull;
  STEADYSTATE_ASSIGN_OR_RETURN(
      options.gate_activation,
      config.ActivationOf("output_gate_activation", "swish"));
  if (options.gate_activation != Activation::kSilu &&
      options.gate_activation != Activation::kSigmoid) {
    return config.Unsupported(
        "output_gate_activation",
        "supported are \"swish\", \"silu\" and \"sigmoid\"");
  }
  return DeltaLayer::Make(builder, options);
}

}  // namespace

Family GatedDeltanetFamily() {
  return {.model_type = "gated_deltanet",
          .source = "gated_deltanet.cc",
          .keys = {.used = kUsedKeys,
                   .inert = kInertKeys,
                   .must_be_default = kFixedKeys},
          .defaults = {.layers = 21},
          .make_token_mixer = MakeGatedDeltanet};
}

}  // namespace steadystate
