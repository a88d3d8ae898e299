#ifndef STEADYSTATE_SERVER_MODEL_PARTS_RWKV_LAYER_H_
#define STEADYSTATE_SERVER_MODEL_PARTS_RWKV_LAYER_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/checkpoint/config.h"
#include "server/model/family.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"
#include "server/model/parts/channel_mixing.h"

namespace steadystate {

// What RWKV-6 and RWKV-7 have in common, as fla writes them.

// Their names: attn_norm and attn., the time mixing, ffn_norm and ffn., the
// channel mixing. The norms are LayerNorms.
ModelFrame RwkvFrame();

// Reads what is around their layers: norm_bias, and with norm_first a norm
// between embedding and first layer.
absl::Status ReadRwkvConfig(const Config& config, ModelConfig& model);

// Makes the channel mixing. Reads intermediate_size, hidden_ratio, which is
// `default_ratio` where the file is silent, and hidden_act.
absl::StatusOr<std::unique_ptr<Mixer>> MakeRwkvChannelMixing(
    const MixerBuilder& builder, const ChannelMixingNames& names,
    double default_ratio);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_PARTS_RWKV_LAYER_H_
