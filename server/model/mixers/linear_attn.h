#ifndef STEADYSTATE_SERVER_MODEL_MIXERS_LINEAR_ATTN_H_
#define STEADYSTATE_SERVER_MODEL_MIXERS_LINEAR_ATTN_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/checkpoint/config.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"
#include "server/model/model_config.h"

namespace steadystate {

// Linear attention with any feature map; formulas in linear_attn.cc. Errors
// name the key or tensor.
absl::StatusOr<std::unique_ptr<Mixer>> MakeLinearAttn(
    const MixerBuilder& builder);

// Says how "feature_map": "dpfp" is read, where versions of fla differ. Errors
// name the key.
absl::Status ReadLinearAttnConfig(const Config& config, ModelConfig& model);

// The keys that MakeLinearAttn reads.
KeyTable LinearAttnKeys();

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_MIXERS_LINEAR_ATTN_H_
