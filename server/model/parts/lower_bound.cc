#include "server/model/parts/lower_bound.h"

#include <algorithm>
#include <cmath>

#include "server/base/status_macros.h"

namespace steadystate {

absl::StatusOr<std::vector<float>> TakeLowerBound(const MixerBuilder& from,
                                                  size_t channels) {
  std::vector<float> least(channels, 0.0f);
  STEADYSTATE_ASSIGN_OR_RETURN(const bool bounded,
                               from.config.Bool("use_lower_bound", true));
  if (!bounded) return least;
  STEADYSTATE_ASSIGN_OR_RETURN(
      const std::vector<float> bounds,
      from.root.TakeFloats("model.lower_bounds", {from.layers, channels}));
  for (size_t c = 0; c < channels; ++c) {
    double largest = bounds[c];
    for (size_t n = 0; n < from.layers; ++n) {
      largest = std::max<double>(largest, bounds[n * channels + c]);
    }
    double all = 0;
    double share = 0;
    for (size_t n = 0; n < from.layers; ++n) {
      const double weight =
          std::exp(static_cast<double>(bounds[n * channels + c]) - largest);
      all += weight;
      if (n > 0 && n <= from.layer) share += weight;
    }
    least[c] = static_cast<float>(share / all);
  }
  return least;
}

}  // namespace steadystate
