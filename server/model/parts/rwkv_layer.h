#ifndef STEADYSTATE_SERVER_MODEL_PARTS_RWKV_LAYER_H_
#define STEADYSTATE_SERVER_MODEL_PARTS_RWKV_LAYER_H_

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/linear/linear.h"
#include "kernels/pointwise/activation.h"
#include "server/checkpoint/config.h"
#include "server/model/family.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"
#include "server/model/state_layout.h"
#include "server/model/workspace.h"

namespace steadystate {

// The token shift of RWKV: how the input of the token before differs from that
// of this one. Its state is the last input, zeros at first. Immutable;
// thread-safe.
class TokenShift {
 public:
  TokenShift() = default;

  // Declares the state slot `slot`, [D].
  static absl::StatusOr<TokenShift> Make(const MixerBuilder& builder,
                                         absl::string_view slot);

  // delta[t] = x[t - 1] - x[t] in every segment; the state becomes the
  // segment's last row.
  //   x      f32[rows, D]  in
  //   delta  f32[rows, D]  overwritten
  void Run(std::span<const Segment> segments, const float* x, float* delta,
           Workspace::Buffers& buffers) const;

 private:
  size_t D_ = 0;
  SlotHandle last_;  // f32[D]
};

// y = x + delta o share: what a projection of RWKV reads, of its own share of
// the token before.
//   x, delta, share, y  f32[n]  in, in, in, out; y may be any of them
void MixInShift(size_t n, const float* x, const float* delta,
                const float* share, float* y);

// The same for all rows, with one share.
//   x, delta, y  f32[rows, D]; D is the length of `share`
void MixInShifts(size_t rows, const float* x, const float* delta,
                 std::span<const float> share, float* y,
                 Workspace::Buffers& buffers);

// What a checkpoint calls the tensors of a channel mixing; matrices without
// ".weight". Without a receptance both its names are empty.
struct ChannelMixingNames {
  absl::string_view key_share;
  absl::string_view key;
  absl::string_view value = "value";
  absl::string_view receptance_share = "";
  absl::string_view receptance = "";
};

// The MLP of RWKV, which sees the token before, too: with d = x_before - x,
//   y = sigmoid(R (x + d o mu_r)) o V act(K (x + d o mu_k)),
// in RWKV-7 without the sigmoid. Its state is its last input. Immutable;
// thread-safe.
class ChannelMixing final : public Mixer {
 public:
  // Pulls the matrices K, [width, D], V, [D, width], R, [D, D], the shares mu,
  // [D], and declares the state slot ffn_shift, [D].
  static absl::StatusOr<std::unique_ptr<Mixer>> Make(
      size_t width, Activation activation, const MixerBuilder& builder,
      const ChannelMixingNames& names);

  void Forward(std::span<const Segment> segments, size_t rows, const float* x,
               float* y, Workspace& workspace) const override;

 private:
  // Scratch memory of a row, in floats.
  struct Places {
    RowSlice delta, mixed, gate;  // D
    RowSlice key;                 // width
  };

  size_t D_ = 0;
  Activation activation_ = Activation::kSqrelu;
  TokenShift shift_;
  std::vector<float> key_share_;         // f32[D]
  std::vector<float> receptance_share_;  // f32[D], or empty: no receptance
  std::unique_ptr<Linear> key_;          // D -> width
  std::unique_ptr<Linear> value_;        // width -> D
  std::unique_ptr<Linear> receptance_;   // D -> D, or null
  Places at_;
};

// What RWKV-6 and RWKV-7 have in common, as fla writes them.

// Their names: attn_norm and attn., the time mixing, ffn_norm and ffn., the
// channel mixing. The norms are LayerNorms.
ModelFrame RwkvFrame();

// Reads what is around their layers: norm_bias, and with norm_first a norm
// between embedding and first layer.
absl::Status ReadRwkvConfig(const Config& config, ModelConfig& model);

// Makes the channel mixing. Reads intermediate_size, hidden_ratio, which is
// `default_ratio` where the file is silent, and hidden_act.
absl::StatusOr<std::unique_ptr<Mixer>> MakeRwkvChannelMixing(
    const MixerBuilder& builder, const ChannelMixingNames& names,
    double default_ratio);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_PARTS_RWKV_LAYER_H_
