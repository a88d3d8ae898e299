#ifndef STEADYSTATE_SERVER_MODEL_REGISTRY_H_
#define STEADYSTATE_SERVER_MODEL_REGISTRY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/checkpoint/config.h"
#include "server/model/family.h"

namespace steadystate {

// Every family that can be loaded, by model_type. Thread-safe.
std::span<const Family> Families();

// The family of a model_type, or null.
const Family* FindFamily(absl::string_view model_type);

// In the config of a model of several media, its language model.
inline constexpr absl::string_view kLanguageModel = "text_config";

// What a config.json says of the language model: the object above, with what
// only the outer one says, or all of it. INVALID_ARGUMENT if it is no object.
absl::StatusOr<Config> LanguageConfig(const Config& whole);

// The token ids under a key, at most 64. Absent: nothing; null: an empty list.
// Those that are not in the model's vocabulary, as small models have them from
// a library's defaults, are left out with a warning: they are never drawn. So
// is -1, by which some files say that there is none.
// INVALID_ARGUMENT, naming the key.
absl::StatusOr<std::optional<std::vector<int32_t>>> ReadTokenIds(
    const Config& config, absl::string_view key, ModelConfig& model);

// Reads and checks what every family shares, of a language model; the mixers
// read their own keys when they are made. INVALID_ARGUMENT and UNIMPLEMENTED as
// Model::Load.
absl::StatusOr<ModelConfig> ReadModelConfig(const Config& config);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_REGISTRY_H_
