#ifndef STEADYSTATE_SERVER_MODEL_MODEL_CONFIG_READER_H_
#define STEADYSTATE_SERVER_MODEL_MODEL_CONFIG_READER_H_

#include "absl/status/statusor.h"
#include "server/checkpoint/config.h"
#include "server/model/family.h"

namespace steadystate {

// Reads and checks what every family shares; the mixers read their own keys
// when they are made. INVALID_ARGUMENT and UNIMPLEMENTED as Model::Load.
absl::StatusOr<ModelConfig> ReadModelConfig(const Config& config);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_MODEL_CONFIG_READER_H_
