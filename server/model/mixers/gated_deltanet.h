#ifndef STEADYSTATE_SERVER_MODEL_MIXERS_GATED_DELTANET_H_
#define STEADYSTATE_SERVER_MODEL_MIXERS_GATED_DELTANET_H_

#include <memory>

#include "absl/status/statusor.h"
#include "server/checkpoint/config.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"

namespace steadystate {

// The delta rule with a decay per head; formulas in gated_deltanet.cc. Errors
// name the key or tensor.
absl::StatusOr<std::unique_ptr<Mixer>> MakeGatedDeltanet(
    const MixerBuilder& builder);

// The keys that MakeGatedDeltanet reads.
KeyTable GatedDeltanetKeys();

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_MIXERS_GATED_DELTANET_H_
