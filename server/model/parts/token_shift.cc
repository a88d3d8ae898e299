#include "server/model/parts/token_shift.h"

#include <algorithm>

#include "server/base/status_macros.h"

namespace steadystate {

absl::StatusOr<TokenShift> TokenShift::Make(const MixerBuilder& builder,
                                            absl::string_view slot) {
  TokenShift shift;
  shift.D_ = builder.hidden_size;
  STEADYSTATE_ASSIGN_OR_RETURN(
      shift.last_, builder.state.AddFixed(builder.layer, slot, {shift.D_}));
  return shift;
}

void TokenShift::Run(std::span<const Segment> segments, const float* x,
                     float* delta, Workspace::Buffers& buffers) const {
  buffers.pool.ParallelFor(segments.size(), [&](size_t i, size_t) {
    const Segment& segment = segments[i];
    float* last = last_.In(segment.state);
    const float* before = last;
    for (size_t t = 0; t < segment.rows; ++t) {
      const size_t at = (segment.first_row + t) * D_;
      for (size_t j = 0; j < D_; ++j) delta[at + j] = before[j] - x[at + j];
      before = x + at;
    }
    std::copy_n(before, D_, last);
  });
}

void MixInShift(size_t n, const float* x, const float* delta,
                const float* share, float* y) {
  for (size_t i = 0; i < n; ++i) y[i] = x[i] + delta[i] * share[i];
}

void MixInShifts(size_t rows, const float* x, const float* delta,
                 std::span<const float> share, float* y,
                 Workspace::Buffers& buffers) {
  const size_t D = share.size();
  buffers.ForRows(rows, D, [&](size_t row, size_t) {
    const size_t at = row * D;
    MixInShift(D, x + at, delta + at, share.data(), y + at);
  });
}

}  // namespace steadystate
