#ifndef STEADYSTATE_SERVER_MODEL_MIXERS_REGISTRY_H_
#define STEADYSTATE_SERVER_MODEL_MIXERS_REGISTRY_H_

#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/model/config.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"

namespace steadystate {

// A family of checkpoints: the common causal language model around one kind of
// mixer.
struct MixerFamily {
  absl::string_view model_type;  // of config.json
  absl::string_view source;      // file in server/model/mixers that defines it
  KeyTable keys;                 // beside those of every causal LM
  // True if the layers are softmax attention throughout.
  bool all_softmax = false;
  // Makes the mixer of one layer. Null if all_softmax.
  absl::StatusOr<std::unique_ptr<Mixer>> (*make)(const MixerBuilder& builder) =
      nullptr;
};

// Every family that can be loaded, by model_type.
std::span<const MixerFamily> MixerFamilies();

// The family of a model_type, or null.
const MixerFamily* FindMixerFamily(absl::string_view model_type);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_MIXERS_REGISTRY_H_
