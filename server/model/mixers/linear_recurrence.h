#ifndef STEADYSTATE_SERVER_MODEL_MIXERS_LINEAR_RECURRENCE_H_
#define STEADYSTATE_SERVER_MODEL_MIXERS_LINEAR_RECURRENCE_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/checkpoint/config.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"
#include "server/model/model_config.h"

namespace steadystate {

// The general recurrence; formulas and keys in linear_recurrence.cc. Errors
// name the key or tensor.
absl::StatusOr<std::unique_ptr<Mixer>> MakeLinearRecurrence(
    const MixerBuilder& builder);

// Checks `decay`; its unknown keys become warnings.
absl::Status ReadLinearRecurrenceConfig(const Config& config,
                                        ModelConfig& model);

// The keys that MakeLinearRecurrence reads.
KeyTable LinearRecurrenceKeys();

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_MIXERS_LINEAR_RECURRENCE_H_
