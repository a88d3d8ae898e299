// Kimi delta attention (Kimi Team 2025), as fla's model_type "kda": Gated
// DeltaNet with a decay per key channel,
//   f = W_f1 W_f0 x + dt_bias
//   log alpha = -exp(A_log) softplus(f), or with lower_bound
//   log alpha = lower_bound sigmoid(exp(A_log) f)
//   S <- diag(alpha) S,  u = beta (v - S^T k),  S <- S + k u^T,
//   o = K^-1/2 S^T q
//   y = W_o (RMSNorm(o, per head) sigmoid(W_g1 W_g0 x + b))
// Where value heads share a key head, each has a beta and a decay of its own
// since fla 0.5.0; in 0.4.1 and 0.4.2 those of one key head have them in
// common, and b_proj, f_proj.1, A_log and dt_bias are stored per key head. The
// rows of b_proj tell which it is.
#include "server/base/status_macros.h"
#include "server/model/mixers/mixers.h"
#include "server/model/parts/delta_layer.h"

namespace steadystate {
namespace {

constexpr absl::string_view kUsedKeys[] = {
    "num_heads",        "num_v_heads", "head_dim",
    "expand_v",         "conv_size",   "use_short_conv",
    "allow_neg_eigval", "safe_gate",   "lower_bound"};
constexpr FixedKey kFixedKeys[] = {{"conv_bias", "false"}};
// Log decays below this are 0 in float32 ten times over.
constexpr Bounds kLowerBound = {-1000, 0};

absl::StatusOr<std::unique_ptr<Mixer>> MakeKda(const MixerBuilder& builder) {
  const Config& config = builder.config;
  DeltaLayerOptions options;
  options.decay = Decay::kKey;
  options.gate = DeltaLayerOptions::Gate::kLowRank;
  options.gate_activation = Activation::kSigmoid;
  STEADYSTATE_RETURN_IF_ERROR(ReadValueHeads(config, 16, 128, 1, options));
  STEADYSTATE_RETURN_IF_ERROR(ReadDeltaOptions(config, options));
  STEADYSTATE_ASSIGN_OR_RETURN(
      options.decay_lower_bound,
      config.OptionalNumber("lower_bound", kLowerBound));
  STEADYSTATE_ASSIGN_OR_RETURN(const bool safe,
                               config.Bool("safe_gate", false));
  if (safe && !options.decay_lower_bound.has_value()) {
    return config.Invalid("lower_bound", "safe_gate needs it: -5, for example");
  }
  const auto beta = builder.weights.ShapeOf("b_proj.weight");
  options.gates_per_key_head = options.HV != options.H && beta.has_value() &&
                               !beta->empty() && beta->front() == options.H;
  return DeltaLayer::Make(builder, options);
}

}  // namespace

Family KdaFamily() {
  return {
      .model_type = "kda",
      .source = "kda.cc",
      .keys = {.used = kUsedKeys, .inert = {}, .must_be_default = kFixedKeys},
      .make_token_mixer = MakeKda};
}

}  // namespace steadystate
