#ifndef STEADYSTATE_SERVER_MODEL_PARTS_MAMBA1_LAYER_H_
#define STEADYSTATE_SERVER_MODEL_PARTS_MAMBA1_LAYER_H_

#include <cstddef>
#include <memory>
#include <optional>
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
#include "server/model/parts/gated_recurrence.h"
#include "server/model/parts/projection.h"
#include "server/model/scratch_plan.h"

namespace steadystate {

// What tells one layer of Mamba-1 from another.
struct Mamba1Options {
  // RMSNorm of low, B and C, each by itself.
  struct InnerNorm {
    float eps = 0;
    bool weighted = false;  // by dt_layernorm, b_layernorm and c_layernorm
  };

  size_t E = 0;     // channels
  size_t N = 0;     // width of a channel's state
  size_t rank = 0;  // of dt's projection
  size_t conv_taps = 4;
  Bias conv_bias = Bias::kYes;
  Bias bias = Bias::kNone;  // of in_proj and out_proj
  std::optional<InnerNorm> norm{};
};

// The rank under the key; absent or "auto": hidden_size / 16, rounded up.
// Errors name the key.
absl::StatusOr<size_t> ReadMambaRank(const MixerBuilder& from,
                                     absl::string_view key);

// A layer of Mamba-1 (Gu and Dao 2023):
//   x, z = W_in u;  x <- silu(conv(x))
//   low, B, C = W_x x;  dt = softplus(W_dt low + b)    per channel e
//   h_e <- exp(-dt_e exp(A_log_e)) o h_e + dt_e x_e B  h_e, B, C of width N
//   y_e = h_e . C + D_e x_e
//   out = W_out (y * silu(z))
// The token's own input is in y. In the words of the recurrence B is the key, C
// the query, dt o x the value and the decay a full matrix; the E channels are
// columns of the state, cut into heads only to share the work. Immutable;
// thread-safe.
class Mamba1Layer final : public Mixer {
 public:
  // Pulls in_proj, conv1d, x_proj, dt_proj, A_log, D and out_proj, and the
  // weights of norms that have some.
  static absl::StatusOr<std::unique_ptr<Mixer>> Make(
      const MixerBuilder& from, const Mamba1Options& options);

  void Forward(std::span<const Segment> segments, size_t rows, const float* x,
               float* y, Workspace& workspace) const override;

 private:
  // Scratch memory of a row, in floats.
  struct Places {
    RowSlice xz;   // 2 E
    RowSlice low;  // rank + 2 N
    RowSlice dt;   // E
    RowSlice v;    // E
    RowSlice out;  // E
  };

  absl::Status TakeProjections(const MixerBuilder& from);
  absl::Status TakeNorms(const MixerBuilder& from);
  absl::Status MakeRecurrence(const MixerBuilder& from);
  // Normalises low, B and C of a row. REQUIRES: options_.norm.
  void Normalize(float* low) const;

  Mamba1Options options_;
  size_t D_ = 0;                 // hidden_size
  size_t columns_ = 0;           // channels of a head
  std::unique_ptr<Linear> in_;   // D -> 2 E: x, z
  std::unique_ptr<Linear> x_;    // E -> rank + 2 N: low, B, C
  std::unique_ptr<Linear> dt_;   // rank -> E
  std::unique_ptr<Linear> out_;  // E -> D
  std::vector<float> norms_;     // f32[rank + 2 N], or empty: no weights
  CausalConvs conv_;
  GatedRecurrence recurrence_;
  std::vector<float> skip_;  // D of the formula, f32[E]
  Places at_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_PARTS_MAMBA1_LAYER_H_
