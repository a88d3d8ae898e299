#ifndef STEADYSTATE_SERVER_MODEL_PARTS_LOWER_BOUND_H_
#define STEADYSTATE_SERVER_MODEL_PARTS_LOWER_BOUND_H_

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "server/model/mixer_builder.h"

namespace steadystate {

// The least decay of each channel of a layer of HGRN and HGRN-2: with B the
// softmax over the layers of model.lower_bounds, [L, channels], it is
// B_1 + .. + B_n for layer n, so that layer 0 has none. Zeros if
// use_lower_bound is false.
absl::StatusOr<std::vector<float>> TakeLowerBound(const MixerBuilder& from,
                                                  size_t channels);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_PARTS_LOWER_BOUND_H_
