#ifndef STEADYSTATE_SERVER_MODEL_PARTS_DELTA_LAYER_H_
#define STEADYSTATE_SERVER_MODEL_PARTS_DELTA_LAYER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/linear/linear.h"
#include "kernels/pointwise/activation.h"
#include "server/checkpoint/config.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"
#include "server/model/parts/causal_conv.h"
#include "server/model/parts/decay_gate.h"
#include "server/model/parts/delta_recurrence.h"
#include "server/model/parts/heads.h"
#include "server/model/parts/projection.h"

namespace steadystate {

// What a checkpoint calls the tensors of such a layer, without ".weight".
struct DeltaLayerNames {
  // q, k and v one after the other, with one convolution, conv1d, over them
  // all. Empty: q_proj, k_proj, v_proj and a convolution each.
  absl::string_view qkv = "";
  // Instead of all of qkv, gate, beta and decay, by key head: of each head the
  // rows of q, k, v and the gate; and those of beta and decay. Needs
  // Gate::kFull, Decay::kScalar and betas, and one convolution as of qkv.
  absl::string_view qkvz = "";
  absl::string_view ba = "";
  absl::string_view beta = "b_proj";
  absl::string_view decay = "a_proj";  // of kScalar
  // Of kKey; an empty one: that is of full rank, and called as of kScalar.
  absl::string_view decay_down = "f_proj.0";
  absl::string_view decay_up = "f_proj.1";
  absl::string_view gate = "g_proj";  // of Gate::kFull
  // Of Gate::kLowRank.
  absl::string_view gate_down = "g_proj.0";
  absl::string_view gate_up = "g_proj.1";
  absl::string_view norm = "o_norm";
  absl::string_view out = "o_proj";
};

// What tells one delta rule from another.
struct DeltaLayerOptions {
  enum class QkNorm : uint8_t {
    kL2,          // x / sqrt(sum x^2 + 1e-6)
    kSum,         // x / sum x
    kMagnitudes,  // x / max(sum |x|, 1e-6)
  };
  enum class Gate : uint8_t {
    kNone,
    kFull,
    kLowRank,
  };

  size_t H = 0;   // query and key heads
  size_t HV = 0;  // value heads, a multiple of H: HV / H share a key
  size_t K = 0;   // key width of a head
  size_t V = 0;   // value width of a head
  std::optional<size_t> conv_taps{};  // nothing: no convolution
  Activation qk_activation = Activation::kSilu;
  QkNorm qk_norm = QkNorm::kL2;
  bool beta = true;            // sigmoid(b_proj x); else 1
  float beta_factor = 1;       // 2: eigenvalues down to -1
  Decay decay = Decay::kNone;  // kNone, kScalar or kKey
  // beta and decay are stored per key head, for all value heads that share it.
  bool gates_per_key_head = false;
  std::optional<double> decay_lower_bound{};
  Gate gate = Gate::kNone;
  Bias gate_bias = Bias::kYes;  // of kLowRank
  Activation gate_activation = Activation::kSilu;
  std::optional<float> head_norm_eps{};  // nothing: that of the model
  DeltaLayerNames names{};
};

// Reads use_short_conv, conv_size and allow_neg_eigval, which all of them have.
absl::Status ReadDeltaOptions(const Config& config, DeltaLayerOptions& options);

// Reads num_heads, num_v_heads, head_dim and expand_v as gated_deltanet and kda
// have them. Errors name the key.
absl::Status ReadValueHeads(const Config& config, size_t default_heads,
                            size_t default_width, double default_expand_v,
                            DeltaLayerOptions& options);

// A layer of the delta rule, as fla and transformers make them: with x the
// input of a token,
//   q, k = norm(act(conv(W x))) per head,  v = silu(conv(W_v x))
//   beta = factor sigmoid(W_b x),  alpha from x or 1
//   S <- diag(alpha) S,  u = beta (v - S^T k),  S <- S + k u^T,
//   o = K^-1/2 S^T q,   y = W_o (RMSNorm(o, per head) act(gate)).
// Value head j reads key head j / (HV / H). Immutable; thread-safe.
class DeltaLayer final : public Mixer {
 public:
  // Pulls the matrices, convolutions and the norm that DeltaLayerNames names,
  // A_log, dt_bias and those named above, as far as the options ask for them.
  static absl::StatusOr<std::unique_ptr<Mixer>> Make(
      const MixerBuilder& from, const DeltaLayerOptions& options);

  void Forward(std::span<const Segment> segments, size_t rows, const float* x,
               float* y, Workspace& workspace) const override;

 private:
  // Scratch memory of a row, in floats.
  struct Places {
    RowSlice fused;  // columns
    RowSlice decay;  // HV K, if of low rank
    RowSlice gate;   // HV V, if of low rank
    RowSlice out;    // HV V
    RowSlice low;    // factors: what decays lack
  };
  // Where the parts of a batch lie.
  struct Parts {
    float* fused;  // f32[rows, columns]
    float* decay;  // f32[rows, HV K] if of low rank, else within fused
    float* gate;   // f32[rows, HV V] likewise
    float* out;    // f32[rows, HV V]
    float* low;    // f32[rows, factors]
    size_t decay_stride;
    size_t gate_stride;
  };

  absl::Status TakeProjections(const MixerBuilder& from);
  // Adds those of the input to the stack.
  absl::Status AddParts(const MixerBuilder& from, ProjectionStack& stack);
  absl::Status AddPartsByHead(ProjectionStack& stack);
  bool ConvsAreThirds(const WeightScope& weights, const ConvNames& thirds,
                      size_t channels) const;
  absl::Status TakeConvs(const MixerBuilder& from);
  void PlanScratch(RowScratchPlan plan);
  Parts PartsOf(const RowScratch& scratch) const;
  // Activates, normalises and gates one row.
  void Prepare(float* fused, float* decay, float* low) const;

  bool LowRankDecay() const {
    return options_.decay == Decay::kKey && !options_.names.decay_down.empty();
  }
  // Decays of a row.
  size_t factors() const {
    if (options_.decay == Decay::kNone) return 0;
    return options_.HV * (options_.decay == Decay::kKey ? options_.K : 1);
  }

  DeltaLayerOptions options_;
  size_t D_ = 0;
  // Columns of the fused projection; those of scalar decay and of a full gate
  // are in the low-rank members.
  size_t q_ = 0, k_ = 0, v_ = 0, beta_ = 0, columns_ = 0;
  LowRank decay_up_, gate_up_;
  std::unique_ptr<Linear> fused_;  // D -> columns_
  std::unique_ptr<Linear> out_;    // HV V -> D
  CausalConvs convs_;
  SoftplusDecay decay_;
  DeltaRecurrence recurrence_;
  HeadOutput output_;
  Places at_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_PARTS_DELTA_LAYER_H_
