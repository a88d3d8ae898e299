#ifndef STEADYSTATE_SERVER_MODEL_MIXERS_MIXERS_H_
#define STEADYSTATE_SERVER_MODEL_MIXERS_MIXERS_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "server/checkpoint/config.h"
#include "server/model/family.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"

namespace steadystate {

// The rows of the registry. Each stands in the file that its `source` names,
// whose head comment has the formulas.
Family BailingHybridFamily();
Family BambaFamily();
Family DeltaNetFamily();
Family GatedDeltanetFamily();
Family FalconH1Family();
Family FalconMambaFamily();
Family GlaFamily();
Family GraniteMoeHybridFamily();
Family HgrnFamily();
Family Hgrn2Family();
Family JambaFamily();
Family KdaFamily();
Family KimiLinearFamily();
Family Lfm2Family();
Family Lfm2MoeFamily();
Family Lfm3Family();
Family LinearAttnFamily();
Family LinearRecurrenceFamily();
Family MambaFamily();
Family Mamba2Family();
Family NemotronHFamily();
Family OlmoHybridFamily();
Family Qwen35Family();
Family Qwen35MoeFamily();
Family Qwen3NextFamily();
Family RecurrentGemmaFamily();
Family RetnetFamily();
Family Rwkv6Family();
Family Rwkv7Family();
Family SimpleGlaFamily();
Family TransformerFamily();
Family XlstmFamily();

// Softmax attention, which layers of most families may have in place of their
// own mixer (softmax_attention.cc).

// Reads the options; errors name the key. `default_heads` of 0 makes num_heads
// required.
absl::StatusOr<SoftmaxAttentionOptions> ReadSoftmaxAttentionOptions(
    const Config& object, size_t hidden_size, size_t default_heads);

// The keys that ReadSoftmaxAttentionOptions reads.
KeyTable SoftmaxAttentionKeys();

// Causal softmax attention with rotary positions over a cache of keys and
// values: a ring of `window` rows, or one row a token up to the context cap.
absl::StatusOr<std::unique_ptr<Mixer>> MakeSoftmaxAttention(
    const SoftmaxAttentionOptions& options, const MixerBuilder& builder);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_MIXERS_MIXERS_H_
