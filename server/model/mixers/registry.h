#ifndef STEADYSTATE_SERVER_MODEL_MIXERS_REGISTRY_H_
#define STEADYSTATE_SERVER_MODEL_MIXERS_REGISTRY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/checkpoint/config.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"
#include "server/model/norm.h"

namespace steadystate {

struct ModelConfig;
struct ResidualStep;

// How the checkpoints of a family name what is around the layers.
struct ModelFrame {
  absl::string_view embeddings = "model.embeddings.weight";
  // What other checkpoints of the family call them; empty: nothing else.
  absl::string_view other_embeddings = "";
  absl::string_view layers = "model.layers.";  // then "N."
  absl::string_view final_norm = "model.norm";
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
  double hidden_ratio = 4;
  size_t bos_token = 1;
  size_t eos_token = 2;
  TiedHead tied_head = TiedHead::kNo;
};

// A family of checkpoints: what its layers are made of, and the language model
// around them.
struct MixerFamily {
  absl::string_view model_type;  // of config.json
  absl::string_view source;      // file in server/model/mixers that defines it
  KeyTable keys;                 // beside those of every causal LM
  ModelFrame frame{};
  FamilyDefaults defaults{};
  // The defaults where they depend on what else the config says. Null: as
  // above.
  absl::StatusOr<FamilyDefaults> (*read_defaults)(const Config& config) =
      nullptr;
  // True if the layers are softmax attention throughout.
  bool all_softmax = false;
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
  // Makes the mixer of one layer. Null if all_softmax, or if make_layer does
  // not need it.
  absl::StatusOr<std::unique_ptr<Mixer>> (*make)(const MixerBuilder& builder) =
      nullptr;
  // Makes a whole layer. Null for the common one: norm, mixer, norm, SwiGLU MLP
  // (MakeMixerAndMlp in block.h); only then the keys of that MLP are read.
  absl::StatusOr<std::vector<ResidualStep>> (*make_layer)(
      const ModelConfig& config, const MixerBuilder& builder) = nullptr;
};

// Every family that can be loaded, by model_type.
std::span<const MixerFamily> MixerFamilies();

// The family of a model_type, or null.
const MixerFamily* FindMixerFamily(absl::string_view model_type);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_MIXERS_REGISTRY_H_
