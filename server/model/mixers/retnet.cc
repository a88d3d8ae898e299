// Retention (Sun et al. 2023), as fla's model_type "retnet":
//   q, k, v = W_q x, W_k x, W_v x     optionally feature map on q and k
//   q, k <- rotary(position), half-split
//   S_t = (1 - 2^(-5-h)) S_{t-1} + k_t v_t^T,   o_t = K^-1/2 S_t^T q_t
//   y   = W_o (RMSNorm(o, per head) * silu(W_g x))
// The token's own (k, v) is in o; h is the query head from 0 on. H query heads
// share G key/value heads, H/G each, but not their decay, so that each has a
// state of its own. torchscale scales k instead, rotates pairs of neighbours
// and adds stabilisers that the norm cancels. fla's configuration has a short
// convolution that its model never makes.
#include <memory>
#include <string>
#include <vector>

#include "kernels/pointwise/activation.h"
#include "server/base/status_macros.h"
#include "server/model/mixers/mixers.h"
#include "server/model/parts/decay_gate.h"
#include "server/model/parts/gated_layer.h"
#include "server/model/parts/query_key.h"
#include "server/model/workspace.h"

namespace steadystate {
namespace {

constexpr absl::string_view kUsedKeys[] = {
    "expand_k",    "expand_v",        "num_heads",         "num_kv_heads",
    "feature_map", "use_output_gate", "elementwise_affine"};
constexpr absl::string_view kInertKeys[] = {"use_short_conv", "conv_size",
                                            "share_conv_kernel"};

// Keys that RetNets of other authors have in place of fla's: torchscale's and
// syncdoth's (new, old), team-lucid's.
constexpr absl::string_view kForeignKeys[] = {"decoder_embed_dim",
                                              "decoder_layers",
                                              "decoder_retention_heads",
                                              "ffn_proj_size",
                                              "qk_dim",
                                              "v_dim",
                                              "use_default_gamma",
                                              "num_rettention_heads"};

struct NamedActivation {
  absl::string_view name;
  Activation act;
};

// This layer alone takes its feature map from transformers' table of names,
// not fla's: "gelu" is another function there.
constexpr NamedActivation kFeatureMaps[] = {
    {"gelu", Activation::kGelu},
    {"gelu_new", Activation::kGeluTanh},
    {"gelu_pytorch_tanh", Activation::kGeluTanh},
    {"linear", Activation::kIdentity},
    {"relu", Activation::kRelu},
    {"relu2", Activation::kSqrelu},
    {"sigmoid", Activation::kSigmoid},
    {"silu", Activation::kSilu},
    {"swish", Activation::kSilu},
    {"tanh", Activation::kTanh},
};

class Retnet final : public Mixer {
 public:
  static absl::StatusOr<std::unique_ptr<Mixer>> Make(const MixerBuilder& from);

  void Forward(std::span<const Segment> segments, size_t rows, const float* x,
               float* y, Workspace& workspace) const override;

 private:
  GatedLayer attention_;
  RotaryRows rotary_;  // of q and k
};

absl::StatusOr<std::optional<Activation>> ReadFeatureMap(const Config& config) {
  if (!config.Has("feature_map")) return std::optional<Activation>();
  STEADYSTATE_ASSIGN_OR_RETURN(const std::string name,
                               config.String("feature_map", ""));
  for (const NamedActivation& row : kFeatureMaps) {
    if (row.name == name) return std::optional(row.act);
  }
  return config.Unsupported("feature_map",
                            "no activation of that name is supported");
}

absl::StatusOr<std::unique_ptr<Mixer>> Retnet::Make(const MixerBuilder& from) {
  auto made = std::make_unique<Retnet>();
  GatedLayer::Options options;
  STEADYSTATE_RETURN_IF_ERROR(GatedLayer::ReadShapeAndGate(
      from, {.num_heads = 8, .expand_k = 1, .expand_v = 2}, options));
  STEADYSTATE_ASSIGN_OR_RETURN(options.feature_map,
                               ReadFeatureMap(from.config));
  const HeadShape& s = options.shape;
  STEADYSTATE_ASSIGN_OR_RETURN(
      made->rotary_,
      RotaryRows::Make(from, {.heads = s.H + s.G, .d = s.K}, "expand_k"));
  options.decay = Decay::kScalar;
  options.state_per_query_head = true;
  options.constants = RetnetDecays(s.H);
  RowScratchPlan plan(from.scratch);
  STEADYSTATE_ASSIGN_OR_RETURN(made->attention_,
                               GatedLayer::Make(from, options, plan));
  return made;
}

void Retnet::Forward(std::span<const Segment> segments, size_t rows,
                     const float* x, float* y, Workspace& workspace) const {
  Workspace::Buffers& buffers = workspace.buffers();
  const PhaseScope scope(buffers.phases, Phase::kRecurrence);
  const GatedLayer::Rows in = attention_.Project(segments, rows, x, buffers);
  rotary_.Run(segments, in.q, in.stride, buffers);
  attention_.Finish(segments, rows, in, {}, y, buffers);
}

// UNIMPLEMENTED, naming a key, if the file is one of other libraries that call
// themselves "retnet", too.
absl::Status ReadConfig(const Config& config, ModelConfig&) {
  for (const absl::string_view key : kForeignKeys) {
    if (!config.Has(key)) continue;
    return config.Unsupported(
        key,
        "this is another author's model of the name \"retnet\"; supported is "
        "that of flash-linear-attention, with num_heads, expand_k and "
        "expand_v");
  }
  return absl::OkStatus();
}

}  // namespace

Family RetnetFamily() {
  return {
      .model_type = "retnet",
      .source = "retnet.cc",
      .keys = {.used = kUsedKeys, .inert = kInertKeys, .must_be_default = {}},
      .defaults = {.hidden_ratio = 2},
      .read_config = ReadConfig,
      .make_token_mixer = Retnet::Make};
}

}  // namespace steadystate
