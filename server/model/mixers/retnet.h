#ifndef STEADYSTATE_SERVER_MODEL_MIXERS_RETNET_H_
#define STEADYSTATE_SERVER_MODEL_MIXERS_RETNET_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/checkpoint/config.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"
#include "server/model/model_config.h"

namespace steadystate {

// Retention; formulas in retnet.cc. Errors name the key or tensor.
absl::StatusOr<std::unique_ptr<Mixer>> MakeRetnet(const MixerBuilder& builder);

// UNIMPLEMENTED, naming a key, if the file is one of other libraries that call
// themselves "retnet", too.
absl::Status ReadRetnetConfig(const Config& config, ModelConfig& model);

// The keys that MakeRetnet reads.
KeyTable RetnetKeys();

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_MIXERS_RETNET_H_
