// RWKV-7 (Peng et al. 2025), as fla's model_type "rwkv7". Time mixing, with
// d = x_before - x and X_c = x + d o x_c:
//   r, k, v = W X_r, W X_k, W X_v,   g = G_2 sigmoid(G_1 X_g)
//   alpha = exp(-e^(-1/2) sigmoid(W_2 tanh(W_1 X_w) + b))
//   a = sigmoid(A_2 A_1 X_a + b)
//   v <- v + (v_0 - v) o sigmoid(V_2 V_1 X_v + b), v_0 that of layer 0, which
//        takes its own v as it is
//   kappa = l2norm(k o k_k) per head,   k <- k o (1 + (a - 1) o k_a)
//   S <- diag(alpha) S - (kappa o a) (kappa^T S) + k v^T,   o = S^T r
//   o <- LayerNorm(o, per head) + (sum_c r_c k_c r_k_c) v
//   y = W_o (o o g)
// kappa comes from k as projected; kappa^T S is of the state before the decay;
// the eps of the last norm is head_dim norm_eps. With fuse_norm fla's kappa has
// its eps under the root, else it is a bound of the length.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/pointwise/activation.h"
#include "kernels/pointwise/decay.h"
#include "server/base/status_macros.h"
#include "server/model/mixers/mixers.h"
#include "server/model/parts/delta_recurrence.h"
#include "server/model/parts/heads.h"
#include "server/model/parts/projection.h"
#include "server/model/parts/rwkv_layer.h"
#include "server/model/workspace.h"

namespace steadystate {
namespace {

constexpr absl::string_view kUsedKeys[] = {
    "head_dim",  "value_dim",    "fuse_norm",  "norm_first",
    "norm_bias", "hidden_ratio", "hidden_act", "intermediate_size"};
// head_dim says how many heads there are, the tensors' shapes say the ranks.
constexpr absl::string_view kInertKeys[] = {"num_heads", "decay_low_rank_dim",
                                            "gate_low_rank_dim",
                                            "a_low_rank_dim", "v_low_rank_dim"};

constexpr ChannelMixingNames kChannelMixing = {.key_share = "x_k",
                                               .key = "key"};

// What is missed where a matrix of low rank is missing.
constexpr float kLogDecayFloor = -0.6065306597126334f;  // -e^(-1/2)

// What reads the token and the one before in a share of its own, in the order
// of the stacked tensor of the first releases.
enum Input : size_t { kR, kW, kK, kV, kA, kG, kInputs };
constexpr absl::string_view kLetters = "rwkvag";

// A matrix of low rank, with an activation between its factors.
struct Lora {
  LowRank map{};
  std::unique_ptr<Linear> down{};  // D -> rank
  std::optional<Activation> between{};
};

class Rwkv7 final : public Mixer {
 public:
  static absl::StatusOr<std::unique_ptr<Mixer>> Make(const MixerBuilder& from);

  void Forward(std::span<const Segment> segments, size_t rows, const float* x,
               float* y, Workspace& workspace) const override;

 private:
  // Scratch memory of a row, in floats.
  struct Places {
    RowSlice delta, mixed;      // D
    RowSlice low;               // low_columns_
    RowSlice r, k;              // D
    RowSlice decay, decay_low;  // D
    RowSlice a;                 // D; then -(kappa o a)
    RowSlice kappa;             // D
    RowSlice v;                 // v_columns_: v, then V_1 X_v
    RowSlice v_share;           // H V: how much of v_0; layer 0 has none
    RowSlice gate;              // H V
    RowSlice bonus;             // H
    RowSlice out;               // H V
  };

  absl::Status ReadShape(const MixerBuilder& from);
  absl::Status TakeShares(const MixerBuilder& from);
  absl::Status TakeVectors(const MixerBuilder& from);
  absl::Status TakeProjections(const MixerBuilder& from);
  // Takes `<input>_lora.lora.2`, [out, rank], and perhaps its bias, and
  // `<input>_lora.lora.0`, [rank, D], into the stack.
  static absl::StatusOr<LowRank> TakeStacked(const MixerBuilder& from,
                                             absl::string_view input,
                                             size_t out, Bias bias,
                                             ProjectionStack& stack);
  // The same with a stack of its own.
  static absl::StatusOr<Lora> TakeLora(const MixerBuilder& from,
                                       absl::string_view input, size_t out,
                                       Bias bias,
                                       std::optional<Activation> between);

  size_t values() const { return H_ * V_; }
  void PlanScratch(RowScratchPlan plan);
  // Fills r, k, v, decay, a and gate, all before their outer activations.
  void Project(size_t rows, const float* x, const RowScratch& b,
               Workspace::Buffers& buffers) const;
  void RunLora(const Lora& lora, size_t rows, const RowScratch& b, float* to,
               Workspace::Buffers& buffers) const;
  // The rest of what comes before the recurrence, for one row. `first` is v_0.
  void Prepare(const RowScratch& b, size_t row, float* first) const;
  // kappa of one head, from k o k_k, in place.
  void Normalize(float* kappa) const;

  size_t layer_ = 0;
  size_t D_ = 0, H_ = 0, K_ = 0, V_ = 0;
  bool eps_under_root_ = true;
  size_t v_columns_ = 0, low_columns_ = 0;
  TokenShift shift_;
  std::array<std::vector<float>, kInputs> shares_;  // f32[D], x_r ...
  std::vector<float> k_k_, k_a_, r_k_;              // f32[D]
  std::unique_ptr<Linear> r_, k_;                   // D -> D
  std::unique_ptr<Linear> v_;                       // D -> v_columns_
  Lora decay_, a_, gate_;
  LowRank v_share_;
  std::unique_ptr<Linear> out_;  // H V -> D
  DeltaRecurrence recurrence_;
  HeadOutput output_;
  Places at_;
};

absl::Status Rwkv7::ReadShape(const MixerBuilder& from) {
  const Config& config = from.config;
  layer_ = from.layer;
  D_ = from.hidden_size;
  // A head_dim of null follows from num_heads, and either from this tensor.
  const auto heads = from.weights.ShapeOf("r_k");
  const bool known = heads.has_value() && heads->size() == 2;
  STEADYSTATE_ASSIGN_OR_RETURN(
      K_, config.Size("head_dim", known ? (*heads)[1] : 64, {1, 1 << 16}));
  if (D_ % K_ != 0) {
    return config.Invalid("head_dim",
                          absl::StrCat("it must divide hidden_size, ", D_));
  }
  H_ = D_ / K_;
  STEADYSTATE_ASSIGN_OR_RETURN(
      const auto stated,
      config.SizeList("value_dim", {1, 1 << 20}, from.layers));
  const std::vector<size_t> widths = stated.value_or(std::vector<size_t>());
  if (widths.size() > 1 && widths.size() != from.layers) {
    return config.Invalid("value_dim",
                          absl::StrCat("a list must name one for each of the ",
                                       from.layers, " layers"));
  }
  for (const size_t width : widths) {
    if (width != widths[0]) {
      return config.Invalid("value_dim",
                            "it must be the same for all layers, for they mix "
                            "in the values of layer 0");
    }
  }
  const size_t width = widths.empty() ? D_ : widths[0];
  if (width % H_ != 0) {
    return config.Invalid(
        "value_dim",
        absl::StrCat("it must be a multiple of the number of heads, ", H_));
  }
  V_ = width / H_;
  STEADYSTATE_ASSIGN_OR_RETURN(eps_under_root_, config.Bool("fuse_norm", true));
  return absl::OkStatus();
}

absl::Status Rwkv7::TakeShares(const MixerBuilder& from) {
  if (from.weights.Has("x_x")) {
    STEADYSTATE_ASSIGN_OR_RETURN(const std::vector<float> stacked,
                                 from.weights.TakeFloats("x_x", {kInputs, D_}));
    for (size_t i = 0; i < kInputs; ++i) {
      const float* share = stacked.data() + i * D_;
      shares_[i].assign(share, share + D_);
    }
    return absl::OkStatus();
  }
  for (size_t i = 0; i < kInputs; ++i) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        shares_[i], from.weights.TakeFloats(
                        absl::StrCat("x_", kLetters.substr(i, 1)), {1, 1, D_}));
  }
  return absl::OkStatus();
}

absl::Status Rwkv7::TakeVectors(const MixerBuilder& from) {
  const WeightScope& weights = from.weights;
  STEADYSTATE_ASSIGN_OR_RETURN(k_k_, weights.TakeFloats("k_k", {D_}));
  STEADYSTATE_ASSIGN_OR_RETURN(k_a_, weights.TakeFloats("k_a", {D_}));
  STEADYSTATE_ASSIGN_OR_RETURN(r_k_, weights.TakeFloats("r_k", {H_, K_}));
  output_ = {.heads = H_,
             .V = V_,
             .norm = HeadOutput::NormKind::kLayer,
             .eps = static_cast<float>(K_) * from.norm_eps};
  STEADYSTATE_ASSIGN_OR_RETURN(output_.weight,
                               weights.TakeFloats("g_norm.weight", {values()}));
  STEADYSTATE_ASSIGN_OR_RETURN(output_.bias,
                               weights.TakeFloats("g_norm.bias", {values()}));
  return absl::OkStatus();
}

absl::StatusOr<LowRank> Rwkv7::TakeStacked(const MixerBuilder& from,
                                           absl::string_view input, size_t out,
                                           Bias bias, ProjectionStack& stack) {
  const std::string name = absl::StrCat(input, "_lora.lora.");
  return TakeLowRank(from, absl::StrCat(name, 0), absl::StrCat(name, 2),
                     {1, out}, bias, stack);
}

absl::StatusOr<Lora> Rwkv7::TakeLora(const MixerBuilder& from,
                                     absl::string_view input, size_t out,
                                     Bias bias,
                                     std::optional<Activation> between) {
  Lora lora = {.between = between};
  ProjectionStack stack(from.weights, from.hidden_size);
  STEADYSTATE_ASSIGN_OR_RETURN(lora.map,
                               TakeStacked(from, input, out, bias, stack));
  STEADYSTATE_ASSIGN_OR_RETURN(lora.down, stack.Pack(from.linears));
  return lora;
}

absl::Status Rwkv7::TakeProjections(const MixerBuilder& from) {
  const WeightScope& weights = from.weights;
  STEADYSTATE_ASSIGN_OR_RETURN(
      r_, MakeProjection(weights, "r_proj", D_, D_, from.linears));
  STEADYSTATE_ASSIGN_OR_RETURN(
      k_, MakeProjection(weights, "k_proj", D_, D_, from.linears));
  STEADYSTATE_ASSIGN_OR_RETURN(
      decay_, TakeLora(from, "w", D_, Bias::kYes, Activation::kTanh));
  STEADYSTATE_ASSIGN_OR_RETURN(
      a_, TakeLora(from, "a", D_, Bias::kYes, std::nullopt));
  STEADYSTATE_ASSIGN_OR_RETURN(
      gate_, TakeLora(from, "g", values(), Bias::kNone, Activation::kSigmoid));
  ProjectionStack v_stack(weights, D_);
  STEADYSTATE_RETURN_IF_ERROR(v_stack.Add("v_proj", values()).status());
  if (layer_ > 0) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        v_share_, TakeStacked(from, "v", values(), Bias::kYes, v_stack));
  }
  v_columns_ = v_stack.columns();
  low_columns_ = std::max({decay_.map.rank, a_.map.rank, gate_.map.rank});
  STEADYSTATE_ASSIGN_OR_RETURN(v_, v_stack.Pack(from.linears));
  STEADYSTATE_ASSIGN_OR_RETURN(
      out_, MakeProjection(weights, "o_proj", values(), D_, from.linears));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Mixer>> Rwkv7::Make(const MixerBuilder& from) {
  auto rwkv = std::make_unique<Rwkv7>();
  STEADYSTATE_RETURN_IF_ERROR(rwkv->ReadShape(from));
  STEADYSTATE_RETURN_IF_ERROR(rwkv->TakeShares(from));
  STEADYSTATE_RETURN_IF_ERROR(rwkv->TakeVectors(from));
  STEADYSTATE_RETURN_IF_ERROR(rwkv->TakeProjections(from));
  STEADYSTATE_ASSIGN_OR_RETURN(rwkv->shift_, TokenShift::Make(from, "shift"));
  STEADYSTATE_ASSIGN_OR_RETURN(
      rwkv->recurrence_, DeltaRecurrence::Make(from, {.heads = rwkv->H_,
                                                      .K = rwkv->K_,
                                                      .V = rwkv->V_,
                                                      .decay = Decay::kKey}));
  rwkv->PlanScratch(RowScratchPlan(from.scratch));
  from.scratch.carry_floats =
      std::max(from.scratch.carry_floats, rwkv->values());
  return rwkv;
}

void Rwkv7::PlanScratch(RowScratchPlan plan) {
  at_ = {.delta = plan.Add(D_),
         .mixed = plan.Add(D_),
         .low = plan.Add(low_columns_),
         .r = plan.Add(D_),
         .k = plan.Add(D_),
         .decay = plan.Add(D_),
         .decay_low = plan.Add(D_),
         .a = plan.Add(D_),
         .kappa = plan.Add(D_),
         .v = plan.Add(v_columns_),
         .v_share = plan.Add(values()),
         .gate = plan.Add(values()),
         .bonus = plan.Add(H_),
         .out = plan.Add(values())};
}

void Rwkv7::RunLora(const Lora& lora, size_t rows, const RowScratch& b,
                    float* to, Workspace::Buffers& buffers) const {
  const size_t rank = lora.map.rank;
  buffers.Project(*lora.down, rows, b[at_.mixed], D_, b[at_.low], rank);
  if (lora.between.has_value()) {
    buffers.ForRows(rows, rank, [&](size_t row, size_t) {
      float* low = b[at_.low] + row * rank;
      Activate(*lora.between, rank, low, low);
    });
  }
  lora.map.Expand(rows, b[at_.low], rank, to, lora.map.up->out(), buffers);
}

void Rwkv7::Project(size_t rows, const float* x, const RowScratch& b,
                    Workspace::Buffers& buffers) const {
  const auto mix = [&](Input input) {
    MixInShifts(rows, x, b[at_.delta], shares_[input], b[at_.mixed], buffers);
  };
  mix(kR);
  buffers.Project(*r_, rows, b[at_.mixed], D_, b[at_.r], D_);
  mix(kK);
  buffers.Project(*k_, rows, b[at_.mixed], D_, b[at_.k], D_);
  mix(kV);
  buffers.Project(*v_, rows, b[at_.mixed], D_, b[at_.v], v_columns_);
  if (layer_ > 0) {
    v_share_.Expand(rows, b[at_.v], v_columns_, b[at_.v_share], values(),
                    buffers);
  }
  mix(kW);
  RunLora(decay_, rows, b, b[at_.decay], buffers);
  mix(kA);
  RunLora(a_, rows, b, b[at_.a], buffers);
  mix(kG);
  RunLora(gate_, rows, b, b[at_.gate], buffers);
}

void Rwkv7::Normalize(float* kappa) const {
  double sum = 0;
  for (size_t i = 0; i < K_; ++i) {
    sum += static_cast<double>(kappa[i]) * static_cast<double>(kappa[i]);
  }
  const double length =
      eps_under_root_ ? std::sqrt(sum + 1e-6) : std::max(std::sqrt(sum), 1e-12);
  for (size_t i = 0; i < K_; ++i) {
    kappa[i] = static_cast<float>(static_cast<double>(kappa[i]) / length);
  }
}

void Rwkv7::Prepare(const RowScratch& b, size_t row, float* first) const {
  float* decay = b[at_.decay] + row * D_;
  float* a = b[at_.a] + row * D_;
  float* k = b[at_.k] + row * D_;
  float* kappa = b[at_.kappa] + row * D_;
  float* v = b[at_.v] + row * v_columns_;
  Activate(Activation::kSigmoid, D_, decay, decay);
  for (size_t i = 0; i < D_; ++i) decay[i] *= kLogDecayFloor;
  SplitDecay(D_, decay, decay, b[at_.decay_low] + row * D_);
  Activate(Activation::kSigmoid, D_, a, a);
  if (layer_ == 0) {
    std::copy_n(v, values(), first);
  } else {
    float* share = b[at_.v_share] + row * values();
    Activate(Activation::kSigmoid, values(), share, share);
    for (size_t i = 0; i < values(); ++i) v[i] += (first[i] - v[i]) * share[i];
  }
  for (size_t i = 0; i < D_; ++i) {
    kappa[i] = k[i] * k_k_[i];
    k[i] *= 1.0f + (a[i] - 1.0f) * k_a_[i];
  }
  const float* r = b[at_.r] + row * D_;
  for (size_t head = 0; head < H_; ++head) {
    const size_t begin = head * K_;
    Normalize(kappa + begin);
    double bonus = 0;
    for (size_t i = begin; i < begin + K_; ++i) {
      bonus += static_cast<double>(r[i] * k[i]) * static_cast<double>(r_k_[i]);
    }
    b[at_.bonus][row * H_ + head] = static_cast<float>(bonus);
  }
  for (size_t i = 0; i < D_; ++i) a[i] *= -kappa[i];
}

void Rwkv7::Forward(std::span<const Segment> segments, size_t rows,
                    const float* x, float* y, Workspace& workspace) const {
  Workspace::Buffers& buffers = workspace.buffers();
  const PhaseScope scope(buffers.phases, Phase::kRecurrence);
  const RowScratch b = buffers.OfRows(rows);
  float* first = buffers.carry.data();  // f32[rows, H V]

  shift_.Run(segments, x, b[at_.delta], buffers);
  Project(rows, x, b, buffers);
  buffers.ForRows(rows, 6 * D_, [&](size_t row, size_t) {
    Prepare(b, row, first + row * values());
  });
  const DeltaRecurrence::GeneralForm inputs = {
      .q = {b[at_.r], D_, K_},
      .k = {b[at_.k], D_, K_},
      .v = {b[at_.v], v_columns_, V_},
      .a = {b[at_.kappa], D_, K_},
      .b = {b[at_.a], D_, K_},
      .alpha = {b[at_.decay], D_, K_},
      .alpha_low = {b[at_.decay_low], D_, K_}};
  recurrence_.Run(segments, inputs, b[at_.out], values(), buffers);
  buffers.ForRows(rows, values(), [&](size_t row, size_t) {
    float* out = b[at_.out] + row * values();
    const float* v = b[at_.v] + row * v_columns_;
    const float* gate = b[at_.gate] + row * values();
    output_.Apply(out, nullptr);
    for (size_t head = 0; head < H_; ++head) {
      const float bonus = b[at_.bonus][row * H_ + head];
      for (size_t i = head * V_; i < (head + 1) * V_; ++i) {
        out[i] = (out[i] + bonus * v[i]) * gate[i];
      }
    }
  });
  buffers.Project(*out_, rows, b[at_.out], values(), y, D_);
}

// UNIMPLEMENTED for another author's checkpoints of this model_type.
absl::Status ReadConfig(const Config& config, ModelConfig& model) {
  if (config.Has("head_size")) {
    return config.Unsupported(
        "head_size",
        "this is another code's \"rwkv7\" than fla's, which has head_dim; "
        "convert the checkpoint");
  }
  if (model.layers[0].tokens == TokenMixer::kSoftmax) {
    return config.Unsupported(
        "attn",
        "layer 0 must not be softmax attention, for the layers after it mix in "
        "its values");
  }
  return ReadRwkvConfig(config, model);
}

absl::StatusOr<std::unique_ptr<Mixer>> MakeChannelMixing(
    const MixerBuilder& builder) {
  return MakeRwkvChannelMixing(builder, kChannelMixing, 4);
}

}  // namespace

Family Rwkv7Family() {
  return {
      .model_type = "rwkv7",
      .source = "rwkv7.cc",
      .keys = {.used = kUsedKeys, .inert = kInertKeys, .must_be_default = {}},
      .frame = RwkvFrame(),
      .defaults = {.norm_eps = 1e-5},
      .layer = {.channels = ChannelMixer::kFamily},
      .read_config = ReadConfig,
      .make_token_mixer = Rwkv7::Make,
      .make_channel_mixer = MakeChannelMixing};
}

}  // namespace steadystate
