#ifndef STEADYSTATE_SERVER_MODEL_FAMILY_H_
#define STEADYSTATE_SERVER_MODEL_FAMILY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/pointwise/activation.h"
#include "server/checkpoint/config.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"
#include "server/model/norm.h"

namespace steadystate {

// How the checkpoints of a family name their tensors, but for those within a
// mixer.
struct ModelFrame {
  absl::string_view embeddings = "model.embeddings.weight";
  // What other checkpoints of the family call them; empty: nothing else.
  absl::string_view other_embeddings = "";
  absl::string_view layers = "model.layers.";  // then "N."
  absl::string_view final_norm = "model.norm";
  // Within a layer: the norm before a mixer, and how the mixer's names begin.
  absl::string_view token_norm = "attn_norm";
  absl::string_view token_mixer = "attn.";
  absl::string_view channel_norm = "mlp_norm";
  absl::string_view channel_mixer = "mlp.";
  NormStyle::Kind norm = NormStyle::Kind::kRms;
};

// Whether the head is the embedding table. Of a file without a head it is.
enum class TiedHead : uint8_t {
  kNo,            // if the file has one, that is it
  kYes,           // even if the file has another
  kUnlessStored,  // unless the file has another, that differs
};

// What a key means that a config.json does not have. Null in the file is the
// same as absent.
struct FamilyDefaults {
  size_t hidden_size = 2048;
  size_t layers = 24;
  size_t vocab_size = 32000;
  double norm_eps = 1e-6;
  double hidden_ratio = 4;  // of the gated MLP
  size_t bos_token = 1;
  size_t eos_token = 2;
  TiedHead tied_head = TiedHead::kNo;
};

// How a softmax layer is made, from the `attn` object of a hybrid's config or
// from the config of a model_type "transformer".
struct SoftmaxAttentionOptions {
  size_t num_heads = 0;     // divides D
  size_t num_kv_heads = 0;  // divides num_heads
  bool qkv_bias = false;
  bool qk_norm = false;          // RMSNorm of each head's q and k, eps 1e-5
  std::optional<size_t> window;  // tokens seen, the own one included
  double rope_theta = 10000;
};

// What a layer mixes tokens with.
enum class TokenMixer : uint8_t {
  kFamily,   // Family::make_token_mixer
  kSoftmax,  // softmax attention
};

// What a layer mixes the channels of each token with, after the token mixer.
enum class ChannelMixer : uint8_t {
  kNone,
  kGatedMlp,  // SwiGLU and its like, of the keys that most families share
  kFamily,    // Family::make_channel_mixer
};

// What one layer is made of.
struct LayerPlan {
  TokenMixer tokens = TokenMixer::kFamily;
  ChannelMixer channels = ChannelMixer::kGatedMlp;
  SoftmaxAttentionOptions softmax{};  // of kSoftmax
};

struct Family;

// What a config.json says about the language model around the mixers.
struct ModelConfig {
  const Family* family = nullptr;
  FamilyDefaults defaults;
  size_t hidden_size = 0;
  size_t vocab_size = 0;
  std::vector<LayerPlan> layers;  // one per layer
  NormStyle norm;                 // before the first and after the last layer
  NormStyle layer_norm;           // within layers
  // Of ChannelMixer::kGatedMlp.
  size_t intermediate_size = 0;
  Activation mlp_activation = Activation::kSilu;
  TiedHead tied_head = TiedHead::kNo;
  // Name of a norm between embedding and first layer; empty: none.
  std::string input_norm;
  // A file without the final norm has none; else that is an error.
  bool final_norm_may_be_missing = false;
  // logits <- cap tanh(logits / cap); 0: as they are.
  float logit_cap = 0;
  bool byte_tokenizer = false;
  uint64_t max_position_embeddings = 0;  // tokens
  std::vector<int32_t> bos_tokens;
  std::vector<int32_t> eos_tokens;
  std::vector<std::string> warnings;  // unknown keys
  // What library versions read differently, and how it was read here.
  std::vector<std::string> readings;
};

// Makes one mixer of a layer. `weights` of the builder are the mixer's,
// "model.layers.N.attn.". Errors name the key or tensor.
using MakeMixer =
    absl::StatusOr<std::unique_ptr<Mixer>> (*)(const MixerBuilder& builder);

// A family of checkpoints: what its layers are made of, and the language model
// around them.
struct Family {
  absl::string_view model_type;  // of config.json
  absl::string_view source;      // file in server/model/mixers that defines it
  KeyTable keys;                 // beside those of every causal LM
  ModelFrame frame{};
  FamilyDefaults defaults{};
  // The defaults where they depend on what else the config says. Null: as
  // above.
  absl::StatusOr<FamilyDefaults> (*read_defaults)(const Config& config) =
      nullptr;
  // What every layer is made of, where the config does not say otherwise.
  LayerPlan layer{};
  // True if `attn` in the config turns layers into softmax attention.
  bool hybrid = true;
  // True if states may be kept in bf16: outputs stay within 1 % of those with
  // float32 states over 10^5 tokens (StatePrecisionTest). All that fade may be
  // in int16.
  bool bf16_states = false;
  // Reads what else the config says of the model around the mixers. Null for
  // nothing.
  absl::Status (*read_config)(const Config& config,
                              ModelConfig& model) = nullptr;
  MakeMixer make_token_mixer = nullptr;    // of TokenMixer::kFamily
  MakeMixer make_channel_mixer = nullptr;  // of ChannelMixer::kFamily
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_FAMILY_H_
