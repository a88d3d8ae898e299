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
#include "server/checkpoint/library_version.h"
#include "server/model/mixers/mixers.h"
#include "server/model/parts/delta_layer.h"
#include "server/model/parts/head_shape.h"

namespace steadystate {
namespace {

constexpr absl::string_view kUsedKeys[] = {
    "num_heads", "expand_k", "expand_v",         "use_gate", "use_short_conv",
    "conv_size", "use_beta", "allow_neg_eigval", "qk_norm",  "qk_activation"};
constexpr absl::string_view kInertKeys[] = {"use_output_norm", "num_kv_heads",
                                            "share_conv_kernel"};
constexpr FixedKey kFixedKeys[] = {{"conv_bias", "false"}};

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

}  // namespace

Family DeltaNetFamily() {
  return {.model_type = "delta_net",
          .source = "delta_net.cc",
          .keys = {.used = kUsedKeys,
                   .inert = kInertKeys,
                   .must_be_default = kFixedKeys},
          .read_config = ReadConfig,
          .make_token_mixer = MakeDeltaNet};
}

}  // namespace steadystate
