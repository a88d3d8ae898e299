#ifndef STEADYSTATE_SERVER_MODEL_MIXERS_RWKV6_H_
#define STEADYSTATE_SERVER_MODEL_MIXERS_RWKV6_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "server/checkpoint/config.h"
#include "server/model/block.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"
#include "server/model/model_config.h"

namespace steadystate {

// The time mixing of RWKV-6; formulas in rwkv6.cc. Errors name the key or
// tensor.
absl::StatusOr<std::unique_ptr<Mixer>> MakeRwkv6(const MixerBuilder& builder);

// A whole layer: time mixing and channel mixing.
absl::StatusOr<std::vector<ResidualStep>> MakeRwkv6Layer(
    const ModelConfig& config, const MixerBuilder& builder);

// The keys that all of these read.
KeyTable Rwkv6Keys();

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_MIXERS_RWKV6_H_
