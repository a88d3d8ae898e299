#ifndef STEADYSTATE_SERVER_MODEL_FAMILY_H_
#define STEADYSTATE_SERVER_MODEL_FAMILY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/pointwise/activation.h"
#include "server/checkpoint/config.h"
#include "server/model/attention_options.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"
#include "server/model/norm.h"
#include "server/model/weight_names.h"

namespace steadystate {

// How the checkpoints of a family name their tensors, but for those within a
// mixer.
struct ModelFrame {
  // How all of them begin, but the head's.
  absl::string_view model = "model.";
  // How they begin where the language model is a part of a greater one: the
  // first under which the embeddings are found.
  std::span<const absl::string_view> inner_models{};
  absl::string_view embeddings = "embeddings.weight";
  // What other checkpoints of the family call them; empty: nothing else.
  absl::string_view other_embeddings = "";
  absl::string_view layers = "layers.";  // then "N."
  absl::string_view final_norm = "norm";
  // Within a layer: the norm before a mixer, and how the mixer's names begin.
  absl::string_view token_norm = "attn_norm";
  absl::string_view token_mixer = "attn.";
  // Of softmax layers; empty: as of the others.
  absl::string_view softmax_mixer = "";
  absl::string_view channel_norm = "mlp_norm";
  absl::string_view channel_mixer = "mlp.";
  // Where a layer has tensors of this name; empty: nowhere.
  absl::string_view other_channel_mixer = "";
  // What other checkpoints of the family call these norms; empty: nothing else.
  absl::string_view other_token_norm = "";
  absl::string_view other_channel_norm = "";
  // Those of layers that normalise what their mixers put out, and what other
  // checkpoints call the first.
  absl::string_view token_post_norm = "";
  absl::string_view other_token_post_norm = "";
  absl::string_view channel_post_norm = "";
  MlpNames mlp{};
  NormStyle::Kind norm = NormStyle::Kind::kRms;
  bool zero_centred_norms = false;
  // The key of their eps, which rules where a file has others, too; empty: the
  // newest of those that there are.
  absl::string_view eps_key = "";
  // How the names of tensors begin that are not of the language model: nobody
  // misses them.
  std::span<const absl::string_view> foreign{};
};

// Whether the head is the embedding table. Of a file without a head it is,
// unless its config.json says that it is not.
enum class TiedHead : uint8_t {
  kNo,            // if the file has one, that is it
  kNever,         // the file must have one
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
  double hidden_ratio = 4;                    // of the gated MLP
  std::optional<size_t> intermediate_size{};  // instead of hidden_ratio
  uint64_t max_position_embeddings = 2048;
  std::optional<size_t> bos_token = 1;
  std::optional<size_t> eos_token = 2;
  TiedHead tied_head = TiedHead::kNo;
};

// What a layer mixes tokens with.
enum class TokenMixer : uint8_t {
  kFamily,   // Family::make_token_mixer
  kSoftmax,  // softmax attention
  kLatent,   // the same over latents
  kBoth,     // the sum of both, of the same input
  kNone,     // it does not: Family::make_channel_mixer in that place
};

// What a layer mixes the channels of each token with, after the token mixer.
enum class ChannelMixer : uint8_t {
  kNone,
  kGatedMlp,  // SwiGLU and its like, of the keys that most families share
  kFamily,    // Family::make_channel_mixer
};

// Where a layer's norms are.
enum class NormPlace : uint8_t {
  kBefore,  // h += mixer(norm(h))
  kAfter,   // h += norm(mixer(h))
  kBoth,    // h += norm(mixer(norm(h))), with weights of their own
};

// What a mixer's input and output are multiplied by.
struct MixerScale {
  float in = 1;
  float out = 1;
};

// What one layer is made of.
struct LayerPlan {
  TokenMixer tokens = TokenMixer::kFamily;
  ChannelMixer channels = ChannelMixer::kGatedMlp;
  NormPlace norms = NormPlace::kBefore;
  SoftmaxAttentionOptions softmax{};  // of kSoftmax and kBoth
  LatentAttentionOptions latent{};    // of kLatent
  MixerScale family_scale{};          // of kBoth
  MixerScale softmax_scale{};         // of kBoth

  bool has_family() const {
    return tokens == TokenMixer::kFamily || tokens == TokenMixer::kBoth;
  }
  bool has_softmax() const {
    return tokens == TokenMixer::kSoftmax || tokens == TokenMixer::kBoth ||
           tokens == TokenMixer::kLatent;
  }
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
  MlpScale mlp_scale;
  TiedHead tied_head = TiedHead::kNo;
  // The key that says so.
  absl::string_view tied_head_key = "tie_word_embeddings";
  // Name of a norm between embedding and first layer; empty: none.
  std::string input_norm;
  // A file without the final norm has none; else that is an error.
  bool final_norm_may_be_missing = false;
  float embedding_multiplier = 1;  // of what goes into the first layer
  float residual_multiplier = 1;   // of what a mixer adds to the residual
  float logit_divisor = 1;
  float logit_multiplier = 1;
  // logits <- cap tanh(logits / cap); 0: as they are.
  float logit_cap = 0;
  bool byte_tokenizer = false;
  uint64_t max_position_embeddings = 0;  // tokens
  std::vector<int32_t> bos_tokens;
  std::vector<int32_t> eos_tokens;
  // True if the file does not say, and they are the family's default.
  bool bos_by_default = false;
  bool eos_by_default = false;
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
  // Another name of it, of a file that has the language model alone.
  absl::string_view inner_model_type = "";
  absl::string_view source;  // file in server/model/mixers that defines it
  KeyTable keys;             // beside those of every causal LM
  KeyTable part_keys{};      // of what its layers share with others
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
  MakeMixer make_token_mixer = nullptr;  // of LayerPlan::has_family
  // Of ChannelMixer::kFamily, and of TokenMixer::kNone.
  MakeMixer make_channel_mixer = nullptr;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_FAMILY_H_
