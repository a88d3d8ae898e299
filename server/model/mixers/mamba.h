#ifndef STEADYSTATE_SERVER_MODEL_MIXERS_MAMBA_H_
#define STEADYSTATE_SERVER_MODEL_MIXERS_MAMBA_H_

#include <memory>

#include "absl/status/statusor.h"
#include "server/checkpoint/config.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"
#include "server/model/mixers/registry.h"

namespace steadystate {

// Mamba-1; formulas in mamba.cc. Errors name the key or tensor.
absl::StatusOr<std::unique_ptr<Mixer>> MakeMamba(const MixerBuilder& builder);

// The keys that MakeMamba reads.
KeyTable MambaKeys();

// The defaults of transformers' MambaConfig, or of fla's.
absl::StatusOr<FamilyDefaults> MambaDefaults(const Config& config);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_MIXERS_MAMBA_H_
