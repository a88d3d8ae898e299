#ifndef STEADYSTATE_SERVER_MODEL_MIXERS_GLA_H_
#define STEADYSTATE_SERVER_MODEL_MIXERS_GLA_H_

#include <memory>

#include "absl/status/statusor.h"
#include "server/checkpoint/config.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"

namespace steadystate {

// Gated linear attention; formulas in gla.cc. Errors name the key or tensor.
absl::StatusOr<std::unique_ptr<Mixer>> MakeGla(const MixerBuilder& builder);

// The keys that MakeGla reads.
KeyTable GlaKeys();

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_MIXERS_GLA_H_
