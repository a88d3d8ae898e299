// xLSTM's mLSTM (Beck et al. 2024), as model_type "xlstm" of transformers and
// NX-AI/xLSTM-7b:
//   q, k, v = W_q x, W_k x, W_v x          q, k narrower than v
//   i, f = cap tanh((W_i x + b_i) / cap), likewise f    one each per head
//   the recurrence of parts/mlstm_recurrence.h, log f = logsigmoid(f)
//   y = W_o (LayerNorm(o, per head) * w * sigmoid(W_g x))
// then a feed-forward layer, W_down (silu(W_gate x) * (W_up x)). The logits are
// capped like the gates. use_bias gives a bias to every projection and norm of
// the layers. The paper's own package scales k instead of q in one of its
// forms: the same outputs, another state.
#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/pointwise/activation.h"
#include "server/base/status_macros.h"
#include "server/model/mixers/mixers.h"
#include "server/model/parts/heads.h"
#include "server/model/parts/mlstm_recurrence.h"
#include "server/model/parts/projection.h"
#include "server/model/workspace.h"

namespace steadystate {
namespace {

constexpr absl::string_view kUsedKeys[] = {
    "add_out_norm",  "embedding_dim",
    "eps",           "ffn_proj_factor",
    "gate_soft_cap", "ffn_round_up_to_multiple_of",
    "num_blocks",    "num_heads",
    "qk_dim_factor", "output_logit_soft_cap",
    "use_bias",      "v_dim_factor"};
// How a library computes: kernels, chunks, and in which precision.
constexpr absl::string_view kInertKeys[] = {"autocast_kernel_dtype",
                                            "chunk_size",
                                            "chunkwise_kernel",
                                            "inference_state_dtype",
                                            "max_inference_chunksize",
                                            "mode",
                                            "norm_reduction_force_float32",
                                            "return_last_states",
                                            "sequence_kernel",
                                            "step_kernel"};
constexpr FixedKey kFixedKeys[] = {{"attn", "null"},
                                   {"weight_mode", "\"single\""}};

constexpr Bounds kCaps = {1e-6, 1e9};
constexpr Bounds kFactors = {0, 64};
constexpr Bounds kWidths = {1, 1 << 20};
constexpr Bounds kDepths = {1, 1024};

class Mlstm final : public Mixer {
 public:
  static absl::StatusOr<std::unique_ptr<Mixer>> Make(const MixerBuilder& from,
                                                     Bias bias);

  void Forward(std::span<const Segment> segments, size_t rows, const float* x,
               float* y, Workspace& workspace) const override;

 private:
  absl::Status ReadShape(const MixerBuilder& from);
  absl::Status TakeProjections(const MixerBuilder& from, Bias bias);
  absl::Status MakeOutput(const MixerBuilder& from, Bias bias);

  size_t D_ = 0;  // hidden_size
  size_t H_ = 0;  // heads
  size_t K_ = 0;  // key width of a head
  size_t V_ = 0;  // value width of a head
  float gate_cap_ = 0;
  // Columns of the fused projection; the forget gates follow the input gates.
  size_t q_ = 0, k_ = 0, v_ = 0, output_gate_ = 0, gates_ = 0, columns_ = 0;
  std::unique_ptr<Linear> fused_;  // D -> columns_
  std::unique_ptr<Linear> out_;    // H V -> D
  MlstmRecurrence recurrence_;
  HeadOutput output_;
  RowSlice fused_rows_;  // columns
  RowSlice out_rows_;    // H V
};

absl::Status Mlstm::ReadShape(const MixerBuilder& from) {
  const Config& config = from.config;
  D_ = from.hidden_size;
  STEADYSTATE_ASSIGN_OR_RETURN(H_, config.Size("num_heads", 8, {1, 4096}));
  const auto head_width = [&](absl::string_view key,
                              double fallback) -> absl::StatusOr<size_t> {
    STEADYSTATE_ASSIGN_OR_RETURN(const double factor,
                                 config.Number(key, fallback, kFactors));
    const auto width = static_cast<size_t>(static_cast<double>(D_) * factor);
    if (width == 0 || width % H_ != 0) {
      return config.Invalid(
          key, absl::StrCat(
                   "hidden_size times it, rounded down, is ", width,
                   ", which must be a positive multiple of num_heads, ", H_));
    }
    return width / H_;
  };
  STEADYSTATE_ASSIGN_OR_RETURN(K_, head_width("qk_dim_factor", 0.5));
  STEADYSTATE_ASSIGN_OR_RETURN(V_, head_width("v_dim_factor", 1));
  STEADYSTATE_ASSIGN_OR_RETURN(const double cap,
                               config.Number("gate_soft_cap", 15, kCaps));
  gate_cap_ = static_cast<float>(cap);
  return absl::OkStatus();
}

absl::Status Mlstm::TakeProjections(const MixerBuilder& from, Bias bias) {
  ProjectionStack stack(from.weights, D_);
  // Some versions of transformers spell the names out.
  const bool spelt = from.weights.Has("query.weight");
  const auto add = [&](absl::string_view name, absl::string_view spelt_name,
                       size_t width) {
    return stack.Add(spelt ? spelt_name : name, width, bias);
  };
  STEADYSTATE_ASSIGN_OR_RETURN(q_, add("q", "query", H_ * K_));
  STEADYSTATE_ASSIGN_OR_RETURN(k_, add("k", "key", H_ * K_));
  STEADYSTATE_ASSIGN_OR_RETURN(v_, add("v", "value", H_ * V_));
  STEADYSTATE_ASSIGN_OR_RETURN(output_gate_,
                               stack.Add("ogate_preact", H_ * V_, bias));
  STEADYSTATE_ASSIGN_OR_RETURN(gates_,
                               stack.Add("igate_preact", H_, Bias::kYes));
  STEADYSTATE_RETURN_IF_ERROR(
      stack.Add("fgate_preact", H_, Bias::kYes).status());
  columns_ = stack.columns();
  STEADYSTATE_ASSIGN_OR_RETURN(fused_, stack.Pack(from.linears));
  STEADYSTATE_ASSIGN_OR_RETURN(
      out_, MakeProjection(from.weights, "out_proj", H_ * V_, D_, from.linears,
                           bias));
  return absl::OkStatus();
}

absl::Status Mlstm::MakeOutput(const MixerBuilder& from, Bias bias) {
  output_ = {.heads = H_,
             .V = V_,
             .norm = HeadOutput::NormKind::kLayer,
             .eps = from.norm_eps,
             .gate = Activation::kSigmoid};
  STEADYSTATE_ASSIGN_OR_RETURN(
      output_.weight,
      from.weights.TakeFloats("multihead_norm.weight", {H_ * V_}));
  if (bias == Bias::kYes) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        output_.bias,
        from.weights.TakeFloats("multihead_norm.bias", {H_ * V_}));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Mixer>> Mlstm::Make(const MixerBuilder& from,
                                                   Bias bias) {
  auto made = std::make_unique<Mlstm>();
  STEADYSTATE_RETURN_IF_ERROR(made->ReadShape(from));
  STEADYSTATE_RETURN_IF_ERROR(made->TakeProjections(from, bias));
  STEADYSTATE_RETURN_IF_ERROR(made->MakeOutput(from, bias));
  STEADYSTATE_ASSIGN_OR_RETURN(const double eps,
                               from.config.Number("eps", 1e-6, {0, 1}));
  STEADYSTATE_ASSIGN_OR_RETURN(
      made->recurrence_,
      MlstmRecurrence::Make(
          from, {.heads = made->H_,
                 .K = made->K_,
                 .V = made->V_,
                 .scale = 1.0f / std::sqrt(static_cast<float>(made->K_)),
                 .eps = static_cast<float>(eps)}));
  RowScratchPlan plan(from.scratch);
  made->fused_rows_ = plan.Add(made->columns_);
  made->out_rows_ = plan.Add(made->H_ * made->V_);
  return made;
}

void Mlstm::Forward(std::span<const Segment> segments, size_t rows,
                    const float* x, float* y, Workspace& workspace) const {
  Workspace::Buffers& buffers = workspace.buffers();
  const PhaseScope scope(buffers.phases, Phase::kRecurrence);
  const size_t width = H_ * V_;
  const RowScratch scratch = buffers.OfRows(rows);
  float* fused = scratch[fused_rows_];
  float* out = scratch[out_rows_];

  buffers.Project(*fused_, rows, x, D_, fused, columns_);
  buffers.ForRows(rows, 2 * H_, [&](size_t row, size_t) {
    float* gates = fused + row * columns_ + gates_;
    SoftCap(2 * H_, gate_cap_, gates, gates);
    Activate(Activation::kLogSigmoid, H_, gates + H_, gates + H_);
  });
  recurrence_.Run(segments,
                  {.q = {fused + q_, columns_, K_},
                   .k = {fused + k_, columns_, K_},
                   .v = {fused + v_, columns_, V_},
                   .log_input = {fused + gates_, columns_, 1},
                   .log_forget = {fused + gates_ + H_, columns_, 1}},
                  out, width, buffers);
  buffers.ForRows(rows, 2 * width, [&](size_t row, size_t) {
    output_.Apply(out + row * width, fused + row * columns_ + output_gate_);
  });
  buffers.Project(*out_, rows, out, width, y, D_);
}

// hidden_size times ffn_proj_factor, rounded up to a multiple.
absl::StatusOr<size_t> ReadFeedForwardWidth(const MixerBuilder& from) {
  STEADYSTATE_ASSIGN_OR_RETURN(
      const double factor,
      from.config.Number("ffn_proj_factor", 2.667, kFactors));
  STEADYSTATE_ASSIGN_OR_RETURN(
      const size_t multiple,
      from.config.Size("ffn_round_up_to_multiple_of", 64, kWidths));
  const auto unit = static_cast<double>(multiple);
  const double wanted = static_cast<double>(from.hidden_size) * factor;
  const auto units = static_cast<size_t>((wanted + unit - 1) / unit);
  if (units == 0) {
    return from.config.Invalid("ffn_proj_factor",
                               "hidden_size times it must be at least 1");
  }
  return units * multiple;
}

absl::StatusOr<Bias> ReadBias(const Config& config) {
  STEADYSTATE_ASSIGN_OR_RETURN(const bool biased,
                               config.Bool("use_bias", false));
  return biased ? Bias::kYes : Bias::kNone;
}

absl::StatusOr<std::unique_ptr<Mixer>> MakeMlstm(const MixerBuilder& builder) {
  STEADYSTATE_ASSIGN_OR_RETURN(const Bias bias, ReadBias(builder.config));
  return Mlstm::Make(builder, bias);
}

absl::StatusOr<std::unique_ptr<Mixer>> MakeFeedForward(
    const MixerBuilder& builder) {
  STEADYSTATE_ASSIGN_OR_RETURN(const Bias bias, ReadBias(builder.config));
  STEADYSTATE_ASSIGN_OR_RETURN(const size_t width,
                               ReadFeedForwardWidth(builder));
  return Mlp::Make(width, Activation::kSilu, builder,
                   {.gate = "proj_up_gate",
                    .up = "proj_up",
                    .down = "proj_down",
                    .bias = bias});
}

// The defaults of transformers' xLSTMConfig, in which embedding_dim and
// num_blocks are other names of hidden_size and num_hidden_layers.
absl::StatusOr<FamilyDefaults> ReadDefaults(const Config& config) {
  FamilyDefaults defaults = {.vocab_size = 50304, .bos_token = 0};
  STEADYSTATE_ASSIGN_OR_RETURN(defaults.hidden_size,
                               config.Size("embedding_dim", 4096, kWidths));
  STEADYSTATE_ASSIGN_OR_RETURN(const size_t layers,
                               config.Size("num_hidden_layers", 32, kDepths));
  STEADYSTATE_ASSIGN_OR_RETURN(defaults.layers,
                               config.Size("num_blocks", layers, kDepths));
  return defaults;
}

absl::Status ReadConfig(const Config& config, ModelConfig& model) {
  if (model.defaults.hidden_size != model.hidden_size &&
      config.Has("embedding_dim")) {
    return config.Invalid(
        "embedding_dim",
        absl::StrCat("it must equal hidden_size, ", model.hidden_size));
  }
  // transformers (4.54 to 5.23) makes num_blocks blocks and writes
  // num_hidden_layers beside it, which is 32 where nobody set it.
  model.layers.resize(model.defaults.layers, model.family->layer);
  // xlstm (2.0.6) has no norm then; transformers has it whatever the key says.
  STEADYSTATE_ASSIGN_OR_RETURN(const bool final_norm,
                               config.Bool("add_out_norm", true));
  model.final_norm_may_be_missing = !final_norm;
  STEADYSTATE_ASSIGN_OR_RETURN(
      const double cap, config.Number("output_logit_soft_cap", 30, kCaps));
  model.logit_cap = static_cast<float>(cap);
  STEADYSTATE_ASSIGN_OR_RETURN(const Bias bias, ReadBias(config));
  model.layer_norm.bias = bias == Bias::kYes;
  // transformers has the flag and does not tie: the file's head is used.
  if (model.tied_head != TiedHead::kNever) model.tied_head = TiedHead::kNo;
  return absl::OkStatus();
}

}  // namespace

Family XlstmFamily() {
  return {.model_type = "xlstm",
          .source = "xlstm.cc",
          .keys = {.used = kUsedKeys,
                   .inert = kInertKeys,
                   .must_be_default = kFixedKeys},
          .frame = {.model = "backbone.",
                    .layers = "blocks.",
                    .final_norm = "out_norm",
                    .token_norm = "norm_mlstm",
                    .token_mixer = "mlstm_layer.",
                    .channel_norm = "norm_ffn",
                    .channel_mixer = "ffn."},
          .read_defaults = ReadDefaults,
          .layer = {.channels = ChannelMixer::kFamily},
          .hybrid = false,
          .read_config = ReadConfig,
          .make_token_mixer = MakeMlstm,
          .make_channel_mixer = MakeFeedForward};
}

}  // namespace steadystate
