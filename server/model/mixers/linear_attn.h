#ifndef STEADYSTATE_SERVER_MODEL_MIXERS_LINEAR_ATTN_H_
#define STEADYSTATE_SERVER_MODEL_MIXERS_LINEAR_ATTN_H_

#include <memory>

#include "absl/status/statusor.h"
#include "server/model/config.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"

namespace steadystate {

// Linear attention with any feature map; formulas in linear_attn.cc. Errors
// name the key or tensor.
absl::StatusOr<std::unique_ptr<Mixer>> MakeLinearAttn(
    const MixerBuilder& builder);

// The keys that MakeLinearAttn reads.
KeyTable LinearAttnKeys();

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_MIXERS_LINEAR_ATTN_H_
