#ifndef STEADYSTATE_SERVER_MODEL_PARTS_CAUSAL_CONV_H_
#define STEADYSTATE_SERVER_MODEL_PARTS_CAUSAL_CONV_H_

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/pointwise/activation.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"
#include "server/model/parts/projection.h"
#include "server/model/state_layout.h"
#include "server/model/workspace.h"

namespace steadystate {

// What a convolution is called.
struct ConvNames {
  // Of one input of several, "q": q_conv1d and the slot conv_q.
  static ConvNames Of(absl::string_view input);

  std::string tensor = "conv1d";  // without ".weight"
  std::string slot = "conv";      // of the state
  // Tensors of equal sizes, one after the other, in place of `tensor`.
  std::vector<std::string> pieces{};
};

// A short depthwise causal convolution over the tokens of a session, as several
// mixers have on their projections: the last W inputs of each channel, the own
// one included, weighted and summed, then an activation. Its state is the last
// W - 1 inputs. Immutable; thread-safe.
class CausalConv {
 public:
  // Pulls the tensor's .weight, [channels, 1, taps], perhaps its .bias,
  // [channels], and declares the state slot, [taps - 1, channels], unless there
  // is but one tap.
  static absl::StatusOr<CausalConv> Make(const MixerBuilder& builder,
                                         const ConvNames& names,
                                         size_t channels, size_t taps,
                                         Activation activation,
                                         Bias bias = Bias::kNone);

  size_t channels() const { return channels_; }

  // Convolves channels `first` to `end` - 1 of a segment in place, token after
  // token.
  //   x  f32[rows of the batch, channels; stride]  in/out: the segment's rows
  void Run(const Segment& segment, size_t first, size_t end, float* x,
           size_t stride) const;

 private:
  size_t channels_ = 0;
  size_t taps_ = 0;
  Activation activation_ = Activation::kIdentity;
  std::vector<float> weights_;  // f32[taps, channels]
  std::vector<float> bias_;     // f32[channels]; empty: none
  SlotHandle window_;           // f32[taps - 1, channels], unless taps is 1
};

// The convolutions of several parts of one stacked projection. Immutable;
// thread-safe.
class CausalConvs {
 public:
  // Adds CausalConv::Make(builder, names, channels, taps, activation, bias)
  // over the columns from `column` on.
  absl::Status Add(const MixerBuilder& builder, const ConvNames& names,
                   size_t column, size_t channels, size_t taps,
                   Activation activation, Bias bias = Bias::kNone);

  // Convolves the columns of all segments in place.
  //   x  f32[rows of the batch, columns; stride]
  void Run(std::span<const Segment> segments, float* x, size_t stride,
           Workspace::Buffers& buffers) const;

 private:
  struct Placed {
    CausalConv conv;
    size_t column = 0;
  };
  std::vector<Placed> convs_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_PARTS_CAUSAL_CONV_H_
