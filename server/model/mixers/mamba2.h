#ifndef STEADYSTATE_SERVER_MODEL_MIXERS_MAMBA2_H_
#define STEADYSTATE_SERVER_MODEL_MIXERS_MAMBA2_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/checkpoint/config.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"
#include "server/model/mixers/registry.h"
#include "server/model/model_config.h"

namespace steadystate {

// Mamba-2; formulas in mamba2.cc. Errors name the key or tensor.
absl::StatusOr<std::unique_ptr<Mixer>> MakeMamba2(const MixerBuilder& builder);

// Says over what the norm is taken where versions of the libraries differ.
// Errors name the key.
absl::Status ReadMamba2Config(const Config& config, ModelConfig& model);

// The keys that MakeMamba2 reads.
KeyTable Mamba2Keys();

// The defaults of transformers' Mamba2Config, or of fla's.
absl::StatusOr<FamilyDefaults> Mamba2Defaults(const Config& config);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_MIXERS_MAMBA2_H_
