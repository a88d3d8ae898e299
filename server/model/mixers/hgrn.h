#ifndef STEADYSTATE_SERVER_MODEL_MIXERS_HGRN_H_
#define STEADYSTATE_SERVER_MODEL_MIXERS_HGRN_H_

#include <memory>

#include "absl/status/statusor.h"
#include "server/checkpoint/config.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"

namespace steadystate {

// The hierarchically gated recurrent network; formulas in hgrn.cc. Errors name
// the key or tensor.
absl::StatusOr<std::unique_ptr<Mixer>> MakeHgrn(const MixerBuilder& builder);

// The keys that MakeHgrn reads.
KeyTable HgrnKeys();

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_MIXERS_HGRN_H_
