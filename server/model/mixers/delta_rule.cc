// DeltaNet (Schlag et al. 2021, Yang et al. 2024), as fla's model_type
// "delta_net":
//   q, k = norm(act(conv(W x))) per head,   v = silu(conv(W_v x))
//   beta = sigmoid(W_b x), or 1;  twice that with allow_neg_eigval
//   u = beta (v - S^T k),   S <- S + k u^T,   o = K^-1/2 S^T q
//   y = W_o (RMSNorm(o, per head) silu(W_g x)), the gate only with use_gate
// norm is that of length, or of the sum ("sum"): x / sum(x) to fla 0.5.2, and
// x / sum(|x|) since 0.6.0, which makes a difference only to activations that
// can be negative. The norm of the output is always there, whatever
// use_output_norm says.
#include <string>

#include "absl/strings/string_view.h"
#include "server/base/status_macros.h"
#include "server/checkpoint/config.h"
#include "server/model/mixers/mixers.h"
#include "server/model/parts/delta_layer.h"
#include "server/model/parts/heads.h"

namespace steadystate {
namespace {

constexpr absl::string_view kDeltaNetUsed[] = {
    "num_heads", "expand_k", "expand_v",         "use_gate", "use_short_conv",
    "conv_size", "use_beta", "allow_neg_eigval", "qk_norm",  "qk_activation"};
constexpr absl::string_view kDeltaNetInert[] = {
    "use_output_norm", "num_kv_heads", "share_conv_kernel"};
constexpr FixedKey kDeltaNetFixed[] = {{"conv_bias", "false"}};

absl::Status ReadQk(const Config& config, DeltaLayerOptions& options) {
  STEADYSTATE_ASSIGN_OR_RETURN(const std::string norm,
                               config.String("qk_norm", "l2"));
  if (norm != "l2" && norm != "sum") {
    return config.Invalid("qk_norm", "it must be \"l2\" or \"sum\"");
  }
  using QkNorm = DeltaLayerOptions::QkNorm;
  options.qk_norm = norm == "l2"            ? QkNorm::kL2
                    : IsBeforeFla06(config) ? QkNorm::kSum
                                            : QkNorm::kMagnitudes;
  STEADYSTATE_ASSIGN_OR_RETURN(const std::string act,
                               config.String("qk_activation", "silu"));
  struct Named {
    absl::string_view name;
    Activation act;
  };
  for (const Named& row :
       {Named{"silu", Activation::kSilu}, Named{"relu", Activation::kRelu},
        Named{"elu", Activation::kEluPlusOne},
        Named{"identity", Activation::kIdentity}}) {
    if (act != row.name) continue;
    options.qk_activation = row.act;
    return absl::OkStatus();
  }
  return config.Invalid(
      "qk_activation",
      "it must be \"silu\", \"relu\", \"elu\" or \"identity\"");
}

absl::StatusOr<std::unique_ptr<Mixer>> MakeDeltaNet(
    const MixerBuilder& builder) {
  const Config& config = builder.config;
  DeltaLayerOptions options;
  STEADYSTATE_ASSIGN_OR_RETURN(
      const HeadShape shape,
      ReadHeadShape(builder, {.num_heads = 16, .grouped = false}));
  options.H = shape.H;
  options.HV = shape.H;
  options.K = shape.K;
  options.V = shape.V;
  STEADYSTATE_RETURN_IF_ERROR(ReadDeltaOptions(config, options));
  STEADYSTATE_RETURN_IF_ERROR(ReadQk(config, options));
  STEADYSTATE_ASSIGN_OR_RETURN(options.beta, config.Bool("use_beta", true));
  STEADYSTATE_ASSIGN_OR_RETURN(const bool gate, config.Bool("use_gate", false));
  if (gate) options.gate = DeltaLayerOptions::Gate::kFull;
  return DeltaLayer::Make(builder, options);
}

// Says how "qk_norm": "sum" is read, where versions of fla differ.
absl::Status ReadConfig(const Config& config, ModelConfig& model) {
  DeltaLayerOptions options;
  STEADYSTATE_RETURN_IF_ERROR(ReadQk(config, options));
  const bool has_signs = options.qk_activation == Activation::kSilu ||
                         options.qk_activation == Activation::kIdentity;
  if (!has_signs || options.qk_norm == DeltaLayerOptions::QkNorm::kL2) {
    return absl::OkStatus();
  }
  constexpr absl::string_view kSums =
      "qk_norm \"sum\" divides by the sum, as flash-linear-attention before "
      "0.6";
  constexpr absl::string_view kMagnitudes =
      "qk_norm \"sum\" divides by the sum of magnitudes, as "
      "flash-linear-attention 0.6";
  model.readings.push_back(
      IsBeforeFla06(config)
          ? ReadingOf(config, kSums, "5.6.2", "by the sum of magnitudes")
          : ReadingOf(config, kMagnitudes, "4.57.6", "by the sum itself"));
  return absl::OkStatus();
}

// Gated DeltaNet (Yang et al. 2024), as fla's model_type "gated_deltanet":
//   q, k = l2norm(silu(conv(W x))) per head,   v = silu(conv(W_v x))
//   alpha = exp(-exp(A_log) softplus(W_a x + dt_bias)),   beta = sigmoid(W_b x)
//   S <- alpha S,  u = beta (v - S^T k),  S <- S + k u^T,  o = K^-1/2 S^T q
//   y = W_o (RMSNorm(o, per head) act(W_g x)), the gate only with use_gate
// Value head j reads key head j / (HV / H). beta doubles with allow_neg_eigval.

constexpr absl::string_view kGatedDeltanetUsed[] = {
    "num_heads", "num_v_heads",    "head_dim",
    "expand_v",  "use_gate",       "output_gate_activation",
    "conv_size", "use_short_conv", "allow_neg_eigval"};
constexpr absl::string_view kGatedDeltanetInert[] = {"share_conv_kernel"};
constexpr FixedKey kGatedDeltanetFixed[] = {{"conv_bias", "false"},
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

constexpr absl::string_view kKdaUsed[] = {
    "num_heads",        "num_v_heads", "head_dim",
    "expand_v",         "conv_size",   "use_short_conv",
    "allow_neg_eigval", "safe_gate",   "lower_bound"};
constexpr FixedKey kKdaFixed[] = {{"conv_bias", "false"}};
// Log decays below this are 0 in float32 ten times over.
constexpr Bounds kKdaLowerBound = {-1000, 0};

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
      config.OptionalNumber("lower_bound", kKdaLowerBound));
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

Family DeltaNetFamily() {
  return {.model_type = "delta_net",
          .source = "delta_rule.cc",
          .keys = {.used = kDeltaNetUsed,
                   .inert = kDeltaNetInert,
                   .must_be_default = kDeltaNetFixed},
          .read_config = ReadConfig,
          .make_token_mixer = MakeDeltaNet};
}

Family GatedDeltanetFamily() {
  return {.model_type = "gated_deltanet",
          .source = "delta_rule.cc",
          .keys = {.used = kGatedDeltanetUsed,
                   .inert = kGatedDeltanetInert,
                   .must_be_default = kGatedDeltanetFixed},
          .defaults = {.layers = 21},
          .make_token_mixer = MakeGatedDeltanet};
}

Family KdaFamily() {
  return {.model_type = "kda",
          .source = "delta_rule.cc",
          .keys = {.used = kKdaUsed, .inert = {}, .must_be_default = kKdaFixed},
          .make_token_mixer = MakeKda};
}

}  // namespace steadystate
