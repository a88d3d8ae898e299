#ifndef STEADYSTATE_SERVER_MODEL_MIXERS_SIMPLE_GLA_H_
#define STEADYSTATE_SERVER_MODEL_MIXERS_SIMPLE_GLA_H_

#include <memory>

#include "absl/status/statusor.h"
#include "server/checkpoint/config.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"

namespace steadystate {

// Gated linear attention with a scalar gate; formulas in simple_gla.cc. Errors
// name the key or tensor.
absl::StatusOr<std::unique_ptr<Mixer>> MakeSimpleGla(
    const MixerBuilder& builder);

// The keys that MakeSimpleGla reads.
KeyTable SimpleGlaKeys();

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_MIXERS_SIMPLE_GLA_H_
