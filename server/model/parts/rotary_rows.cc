#include "server/model/parts/rotary_rows.h"

#include "absl/strings/str_cat.h"
#include "kernels/pointwise/rotary.h"

namespace steadystate {

absl::StatusOr<RotaryRows> RotaryRows::Make(const MixerBuilder& builder,
                                            const Options& options,
                                            absl::string_view width_key) {
  if (options.d % 2 != 0) {
    return builder.config.Invalid(
        width_key, absl::StrCat("keys of ", options.d,
                                " channels cannot be rotated in pairs; their "
                                "width must be even"));
  }
  builder.scratch.Need(0, options.d);
  RotaryRows rotary;
  rotary.options_ = options;
  rotary.frequencies_.resize(options.d / 2);
  RotaryFrequencies(options.d, options.base, rotary.frequencies_.data());
  return rotary;
}

void RotaryRows::Run(std::span<const Segment> segments, float* x, size_t stride,
                     Workspace::Buffers& buffers) const {
  const auto rotate = [&](const Segment& segment, size_t t, size_t worker) {
    Rotate(segment.position + t, x + (segment.first_row + t) * stride,
           buffers.OfWorker(worker));
  };
  if (segments.empty()) return;
  // A single token is not worth waking the team.
  if (segments.size() == 1 && segments[0].rows == 1) {
    rotate(segments[0], 0, 0);
    return;
  }
  // A few long segments are cut, so that all threads have something to do.
  const size_t pieces =
      (buffers.pool.size() + segments.size() - 1) / segments.size();
  buffers.pool.ParallelFor(
      segments.size() * pieces, [&](size_t i, size_t worker) {
        const Segment& segment = segments[i / pieces];
        const size_t piece = i % pieces;
        const size_t end = segment.rows * (piece + 1) / pieces;
        for (size_t t = segment.rows * piece / pieces; t < end; ++t) {
          rotate(segment, t, worker);
        }
      });
}

void RotaryRows::Rotate(uint64_t position, float* x, float* angles) const {
  const size_t d = options_.d;
  float* cos = angles;
  float* sin = angles + d / 2;
  RotaryAngles(d, position, frequencies_.data(), cos, sin);
  for (size_t head = 0; head < options_.heads; ++head) {
    if (options_.pairs == Pairs::kHalves) {
      ApplyRotary(d, cos, sin, x + head * d);
    } else {
      ApplyRotaryInterleaved(d, cos, sin, x + head * d);
    }
  }
}

}  // namespace steadystate
