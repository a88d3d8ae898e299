#ifndef STEADYSTATE_SERVER_MODEL_MIXERS_DELTA_NET_H_
#define STEADYSTATE_SERVER_MODEL_MIXERS_DELTA_NET_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/checkpoint/config.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"
#include "server/model/model_config.h"

namespace steadystate {

// The delta rule without decay; formulas in delta_net.cc. Errors name the key
// or tensor.
absl::StatusOr<std::unique_ptr<Mixer>> MakeDeltaNet(
    const MixerBuilder& builder);

// Says how "qk_norm": "sum" is read where versions of fla differ. Errors name
// the key.
absl::Status ReadDeltaNetConfig(const Config& config, ModelConfig& model);

// The keys that MakeDeltaNet reads.
KeyTable DeltaNetKeys();

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_MIXERS_DELTA_NET_H_
