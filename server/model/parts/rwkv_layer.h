#ifndef STEADYSTATE_SERVER_MODEL_PARTS_RWKV_LAYER_H_
#define STEADYSTATE_SERVER_MODEL_PARTS_RWKV_LAYER_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/checkpoint/config.h"
#include "server/model/block.h"
#include "server/model/mixer_builder.h"
#include "server/model/model_config.h"
#include "server/model/parts/channel_mixing.h"

namespace steadystate {

// Reads what fla's RWKV models have around their layers: norm_bias, and with
// norm_first a norm between embedding and first layer.
absl::Status ReadRwkvConfig(const Config& config, ModelConfig& model);

// A layer of RWKV, in fla's names:
//   h += time mixing(norm(h; attn_norm)), its tensors under attn.,
//   h += channel mixing(norm(h; ffn_norm)), its tensors under ffn.
// `attn` in the config puts softmax attention in place of the time mixing only.
// Reads intermediate_size, hidden_ratio and hidden_act. `weights` of `builder`
// are those of the layer.
absl::StatusOr<std::vector<ResidualStep>> MakeRwkvLayer(
    const ModelConfig& config, const MixerBuilder& builder,
    const ChannelMixingNames& names);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_PARTS_RWKV_LAYER_H_
