#ifndef STEADYSTATE_SERVER_MODEL_PARTS_MAMBA2_LAYER_H_
#define STEADYSTATE_SERVER_MODEL_PARTS_MAMBA2_LAYER_H_

#include <cstddef>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/linear/linear.h"
#include "server/checkpoint/config.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"
#include "server/model/parts/causal_conv.h"
#include "server/model/parts/decay_gate.h"
#include "server/model/parts/gated_recurrence.h"
#include "server/model/parts/heads.h"
#include "server/model/parts/projection.h"

namespace steadystate {

// What tells one layer of Mamba-2 from another.
struct Mamba2Options {
  // What the output is normalised over.
  enum class Norm { kNone, kGroup, kAll };

  size_t H = 0;  // heads
  size_t P = 0;  // value width of a head
  size_t N = 0;  // key width of a group
  size_t G = 0;  // groups, divides H
  float dt_min = 0;
  float dt_max = std::numeric_limits<float>::infinity();
  size_t conv_taps = 4;
  Bias conv_bias = Bias::kYes;
  Bias in_bias = Bias::kNone;
  Bias out_bias = Bias::kNone;
  // What the columns of in_proj are multiplied by, bias included.
  struct Scale {
    float z = 1, x = 1, B = 1, C = 1, dt = 1;
  } scale{};
  bool skip_per_channel = false;  // D of the formula; else per head
  Norm norm = Norm::kGroup;
  bool gate_first = true;  // RMSNorm(y silu(z)); else RMSNorm(y) silu(z)
};

// Reads the two bounds of dt that stand under the key, if any do. Errors name
// the key.
absl::Status ReadStepLimit(const Config& config, absl::string_view key,
                           Mamba2Options& options);

// Reads the shape of E channels from the keys that hybrids of transformers
// share: mamba_n_heads, mamba_d_head, which follows from it or is "auto",
// mamba_d_state, mamba_n_groups, mamba_d_conv and time_step_limit. Errors name
// the key; `channels` tells in words what E is.
absl::Status ReadMamba2Shape(const Config& config, size_t E,
                             absl::string_view channels,
                             Mamba2Options& options);

// All options of a layer as Granite 4.0 H and Bamba have it: the shape of
// mamba_expand times hidden_size channels, mamba_conv_bias and mamba_proj_bias.
// Errors name the key.
absl::StatusOr<Mamba2Options> ReadMamba2Options(const MixerBuilder& from);

// A layer of Mamba-2 (Dao and Gu 2024):
//   z, x, B, C, dt = W_in u;  [x, B, C] <- silu(conv([x, B, C]))
//   dt_h = clamp(softplus(dt_h + dt_bias_h)),  a_h = exp(-exp(A_log_h) dt_h)
//   S_h <- a_h S_h + B_g (dt_h x_h)^T,  y_h = S_h^T C_g + D_h x_h
//   out = W_out RMSNorm(y * silu(z))
// The token's own input is in y. H heads share G groups of keys B and queries
// C, H / G consecutive heads each; x is the value, in units of dt. Immutable;
// thread-safe.
class Mamba2Layer final : public Mixer {
 public:
  // Pulls in_proj, conv1d, A_log, dt_bias, D, norm and out_proj.
  static absl::StatusOr<std::unique_ptr<Mixer>> Make(
      const MixerBuilder& from, const Mamba2Options& options);

  void Forward(std::span<const Segment> segments, size_t rows, const float* x,
               float* y, Workspace& workspace) const override;

 private:
  // Scratch memory of a row, in floats.
  struct Places {
    RowSlice fused;  // columns
    RowSlice decay;  // H
    RowSlice low;    // H
    RowSlice v;      // E
    RowSlice out;    // E
  };

  absl::Status TakeProjections(const MixerBuilder& from);
  void SetScale();
  absl::Status TakeGates(const MixerBuilder& from);
  absl::Status MakeOutput(const MixerBuilder& from);
  // One row's dt into steps of time, its decays, of which `low` is what floats
  // lack, and its values.
  void Discretize(float* dt, const float* x, float* decay, float* low,
                  float* v) const;

  Mamba2Options options_;
  size_t D_ = 0;  // hidden_size
  size_t E_ = 0;  // channels, H P
  // Columns of the input projection; z is the first.
  size_t x_at_ = 0, B_at_ = 0, C_at_ = 0, dt_at_ = 0, columns_ = 0;
  std::vector<float> scale_;     // f32[columns_], or empty: all of them 1
  std::unique_ptr<Linear> in_;   // D -> columns_
  std::unique_ptr<Linear> out_;  // E -> D
  CausalConvs conv_;
  GatedRecurrence recurrence_;
  HeadOutput output_;
  SoftplusDecay decay_;      // by steps of time
  std::vector<float> skip_;  // D of the formula, f32[E]
  Places at_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_PARTS_MAMBA2_LAYER_H_
