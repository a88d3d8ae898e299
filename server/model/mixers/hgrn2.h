#ifndef STEADYSTATE_SERVER_MODEL_MIXERS_HGRN2_H_
#define STEADYSTATE_SERVER_MODEL_MIXERS_HGRN2_H_

#include <memory>

#include "absl/status/statusor.h"
#include "server/checkpoint/config.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"

namespace steadystate {

// HGRN-2; formulas in hgrn2.cc. Errors name the key or tensor.
absl::StatusOr<std::unique_ptr<Mixer>> MakeHgrn2(const MixerBuilder& builder);

// The keys that MakeHgrn2 reads.
KeyTable Hgrn2Keys();

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_MIXERS_HGRN2_H_
