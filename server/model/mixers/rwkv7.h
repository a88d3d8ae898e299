#ifndef STEADYSTATE_SERVER_MODEL_MIXERS_RWKV7_H_
#define STEADYSTATE_SERVER_MODEL_MIXERS_RWKV7_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/checkpoint/config.h"
#include "server/model/block.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"
#include "server/model/model_config.h"

namespace steadystate {

// The time mixing of RWKV-7; formulas in rwkv7.cc. Errors name the key or
// tensor.
absl::StatusOr<std::unique_ptr<Mixer>> MakeRwkv7(const MixerBuilder& builder);

// What is around the layers. UNIMPLEMENTED for another author's checkpoints of
// this model_type.
absl::Status ReadRwkv7Config(const Config& config, ModelConfig& model);

// A whole layer: time mixing and channel mixing.
absl::StatusOr<std::vector<ResidualStep>> MakeRwkv7Layer(
    const ModelConfig& config, const MixerBuilder& builder);

// The keys that all of these read.
KeyTable Rwkv7Keys();

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_MIXERS_RWKV7_H_
