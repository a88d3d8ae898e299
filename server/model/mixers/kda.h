#ifndef STEADYSTATE_SERVER_MODEL_MIXERS_KDA_H_
#define STEADYSTATE_SERVER_MODEL_MIXERS_KDA_H_

#include <memory>

#include "absl/status/statusor.h"
#include "server/checkpoint/config.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"

namespace steadystate {

// Kimi delta attention; formulas in kda.cc. Errors name the key or tensor.
absl::StatusOr<std::unique_ptr<Mixer>> MakeKda(const MixerBuilder& builder);

// The keys that MakeKda reads.
KeyTable KdaKeys();

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_MIXERS_KDA_H_
