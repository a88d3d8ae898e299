#ifndef STEADYSTATE_SERVER_MODEL_PARTS_TOKEN_SHIFT_H_
#define STEADYSTATE_SERVER_MODEL_PARTS_TOKEN_SHIFT_H_

#include <cstddef>
#include <span>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
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

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_PARTS_TOKEN_SHIFT_H_
