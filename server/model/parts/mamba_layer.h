#ifndef STEADYSTATE_SERVER_MODEL_PARTS_MAMBA_LAYER_H_
#define STEADYSTATE_SERVER_MODEL_PARTS_MAMBA_LAYER_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/checkpoint/config.h"
#include "server/model/family.h"
#include "server/model/mixer_builder.h"
#include "server/model/parts/projection.h"

namespace steadystate {

// What Mamba-1 and Mamba-2 have in common, as transformers and fla write them.

// Their names: backbone.layers.N., in a layer norm and mixer., backbone.norm_f,
// and backbone.embeddings, which mamba_ssm calls backbone.embedding.
ModelFrame MambaFrame();

// True if fla wrote the config: it has keys that transformers does not know.
// Both use the same model_type, with other defaults.
bool IsMambaOfFla(const Config& config);

// The layer's inner width E = int(expand hidden_size), a positive number.
// Errors name the key.
absl::StatusOr<size_t> ReadMambaWidth(const MixerBuilder& from);

// The layer's convolution, conv1d, which silu follows: conv_kernel taps, a bias
// unless use_conv_bias is false. Errors name the key; UNIMPLEMENTED for another
// hidden_act.
struct MambaConv {
  size_t taps = 0;
  Bias bias = Bias::kYes;
};
absl::StatusOr<MambaConv> ReadMambaConv(const Config& config);

// Whether in_proj and out_proj have biases: use_bias.
absl::StatusOr<Bias> ReadMambaBias(const MixerBuilder& from);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_PARTS_MAMBA_LAYER_H_
