#ifndef STEADYSTATE_SERVER_MODEL_PARTS_CHANNEL_MIXING_H_
#define STEADYSTATE_SERVER_MODEL_PARTS_CHANNEL_MIXING_H_

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/linear/linear.h"
#include "kernels/pointwise/activation.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"
#include "server/model/parts/token_shift.h"

namespace steadystate {

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
  size_t D_ = 0;
  Activation activation_ = Activation::kSqrelu;
  TokenShift shift_;
  std::vector<float> key_share_;         // f32[D]
  std::vector<float> receptance_share_;  // f32[D], or empty: no receptance
  std::unique_ptr<Linear> key_;          // D -> width
  std::unique_ptr<Linear> value_;        // width -> D
  std::unique_ptr<Linear> receptance_;   // D -> D, or null
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_PARTS_CHANNEL_MIXING_H_
