#ifndef STEADYSTATE_SERVER_MODEL_GENERATION_CONFIG_H_
#define STEADYSTATE_SERVER_MODEL_GENERATION_CONFIG_H_

#include <string>

#include "absl/status/status.h"
#include "server/model/family.h"

namespace steadystate {

// Adds to a model's special tokens what generation_config.json says, if the
// directory has one: its eos_token_id are tokens that end a generation too,
// since instruct models name there what ends a turn; its bos_token_id counts
// where config.json has none. A family's default counts where neither file says
// anything. Nothing else of the file is read: how to draw is said in each
// request. INVALID_ARGUMENT, naming file and key, if it is malformed; errors of
// ReadModelFile, too. A token that is not in the vocabulary is left out, with a
// warning.
absl::Status AddGeneratedTokens(const std::string& directory,
                                ModelConfig& model);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_GENERATION_CONFIG_H_
