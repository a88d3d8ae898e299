#ifndef STEADYSTATE_SERVER_MODEL_MODEL_CONFIG_H_
#define STEADYSTATE_SERVER_MODEL_MODEL_CONFIG_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/pointwise/activation.h"
#include "server/checkpoint/config.h"
#include "server/model/mixers/registry.h"
#include "server/model/mixers/softmax_attention.h"
#include "server/model/norm.h"

namespace steadystate {

// What a config.json says about the language model around the mixers.
struct ModelConfig {
  const MixerFamily* family = nullptr;
  FamilyDefaults defaults;
  size_t hidden_size = 0;
  size_t vocab_size = 0;
  NormStyle norm;
  // Of the common layer's MLP.
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
  // One per layer: set where softmax attention takes the family's place.
  std::vector<std::optional<SoftmaxAttentionOptions>> softmax;
  std::vector<std::string> warnings;  // unknown keys
  // How that was read which versions of a library read differently.
  std::vector<std::string> readings;
};

// Reads and checks what every family shares; the mixers read their own keys
// when they are made. INVALID_ARGUMENT and UNIMPLEMENTED as Model::Load.
absl::StatusOr<ModelConfig> ReadModelConfig(const Config& config);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_MODEL_CONFIG_H_
