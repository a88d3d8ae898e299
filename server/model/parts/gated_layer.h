#ifndef STEADYSTATE_SERVER_MODEL_PARTS_GATED_LAYER_H_
#define STEADYSTATE_SERVER_MODEL_PARTS_GATED_LAYER_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/linear/linear.h"
#include "kernels/pointwise/activation.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"
#include "server/model/parts/causal_conv.h"
#include "server/model/parts/gated_recurrence.h"
#include "server/model/parts/heads.h"
#include "server/model/parts/projection.h"
#include "server/model/workspace.h"

namespace steadystate {

// The layer that fla's gla, simple_gla and retnet share, around a decay G that
// is each one's own:
//   q, k, v, g = W x;  q, k, v <- silu(conv(.));  q, k <- act(.)
//   S_t = G_t o S_{t-1} + k_t v_t^T,   o_t = K^-1/2 S_t^T q_t
//   y = W_o (RMSNorm(o, per head) * silu(g))
// Convolution, act and gate are options. H query heads share G key/value heads,
// H/G consecutive ones each. Immutable; thread-safe.
class GatedLayer {
 public:
  struct Options {
    HeadShape shape{};
    bool gated = true;
    std::optional<Activation> feature_map{};  // of q and k
    size_t conv_taps = 0;                     // 0: no convolution
    Decay decay = Decay::kKey;
    // As of GatedRecurrence::Options; Finish then takes no alpha.
    std::vector<double> constants{};
    // True if query heads that share keys and values fade differently: each
    // then has a state of its own. Else there is a state for each key/value
    // head.
    bool state_per_query_head = false;
    // One more projection of x, for the decay, with a bias; empty: none.
    absl::string_view decay_projection = "";
    size_t decay_columns = 0;
    // It is of low rank: `<decay_projection>.0` and `.1`.
    bool decay_low_rank = false;
  };

  // What a row holds once it is projected, a batch at a time.
  struct Rows {
    float* q;           // f32[H K], then k
    float* k;           // f32[G K]
    float* v;           // f32[G V]
    float* gate;        // f32[H V], if there is a gate
    float* decay;       // f32[decay_columns], unless it is of low rank
    float* out;         // f32[H V; contiguous rows]: the heads' outputs
    size_t stride = 0;  // from row to row of all but out
  };

  GatedLayer() = default;

  // Reads num_heads, num_kv_heads, expand_k, expand_v and use_output_gate. Of
  // `hidden_act` only "swish" is supported with a gate.
  static absl::Status ReadShapeAndGate(const MixerBuilder& from,
                                       const HeadShape::Defaults& defaults,
                                       Options& options);
  // Reads use_short_conv and conv_size.
  static absl::Status ReadConv(const MixerBuilder& from, bool default_conv,
                               Options& options);
  // Reads feature_map by fla's names.
  static absl::Status ReadFeatureMap(const MixerBuilder& from,
                                     Options& options);

  // Reads clamp_min, below which no log decay of gla and simple_gla is: minus
  // infinity where there is none.
  static absl::StatusOr<float> ReadLogDecayFloor(const MixerBuilder& from);

  // Pulls q_proj, k_proj, v_proj, g_proj, o_proj, the output norm, the
  // convolutions and the decay's projection; declares the states and plans
  // its scratch memory, which the mixer may add to.
  static absl::StatusOr<GatedLayer> Make(const MixerBuilder& from,
                                         const Options& options,
                                         RowScratchPlan& plan);

  const HeadShape& shape() const { return options_.shape; }

  // Projects, convolves and maps all rows.
  //   x  f32[rows, D]
  Rows Project(std::span<const Segment> segments, size_t rows, const float* x,
               Workspace::Buffers& buffers) const;

  // The projection for the decay, which is of low rank.
  //   decay  f32[rows, decay_columns; stride]  overwritten
  void ProjectDecay(size_t rows, float* decay, size_t stride,
                    Workspace::Buffers& buffers) const;

  // Decays by state head, and perhaps what floats lack of them.
  struct Decays {
    HeadRows alpha{};
    HeadRows low{};
  };

  // Runs the recurrence and projects what comes out.
  //   y  f32[rows, D]  overwritten
  void Finish(std::span<const Segment> segments, size_t rows, const Rows& in,
              const Decays& decays, float* y,
              Workspace::Buffers& buffers) const;

 private:
  absl::Status TakeProjections(const MixerBuilder& from);
  absl::Status TakeConvs(const MixerBuilder& from);
  absl::Status MakeRecurrence(const MixerBuilder& from);

  Options options_;
  // Columns of the fused projection.
  size_t q_ = 0, k_ = 0, v_ = 0, gate_ = 0, columns_ = 0;
  LowRank decay_;  // its column is that of any projection for the decay
  std::unique_ptr<Linear> fused_;  // D -> columns_
  std::unique_ptr<Linear> out_;    // H V -> D
  CausalConvs convs_;
  GatedRecurrence recurrence_;
  HeadOutput output_;
  RowSlice fused_rows_;  // columns
  RowSlice out_rows_;    // H V
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_PARTS_GATED_LAYER_H_
