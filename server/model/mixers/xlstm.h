#ifndef STEADYSTATE_SERVER_MODEL_MIXERS_XLSTM_H_
#define STEADYSTATE_SERVER_MODEL_MIXERS_XLSTM_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/checkpoint/config.h"
#include "server/model/block.h"
#include "server/model/mixer_builder.h"
#include "server/model/mixers/registry.h"
#include "server/model/model_config.h"

namespace steadystate {

// A layer of xLSTM: mLSTM and feed-forward; formulas in xlstm.cc. Errors name
// the key or tensor.
absl::StatusOr<std::vector<ResidualStep>> MakeXlstmLayer(
    const ModelConfig& config, const MixerBuilder& builder);

// The keys that MakeXlstmLayer and ReadXlstmConfig read.
KeyTable XlstmKeys();

// How its checkpoints name what is around the layers.
ModelFrame XlstmFrame();

// The defaults of transformers' xLSTMConfig, in which embedding_dim and
// num_blocks are other names of hidden_size and num_hidden_layers.
absl::StatusOr<FamilyDefaults> XlstmDefaults(const Config& config);

// Reads the cap of the logits.
absl::Status ReadXlstmConfig(const Config& config, ModelConfig& model);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_MIXERS_XLSTM_H_
