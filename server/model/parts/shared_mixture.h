#ifndef STEADYSTATE_SERVER_MODEL_PARTS_SHARED_MIXTURE_H_
#define STEADYSTATE_SERVER_MODEL_PARTS_SHARED_MIXTURE_H_

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/checkpoint/config.h"
#include "server/model/family.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"
#include "server/model/parts/mixture.h"

namespace steadystate {

// The mixtures of Kimi Linear and of Ling 3.0: as DeepSeek-V3's, beside an
// expert that all tokens have.

// Reads the router by the names of keys that their files have, or that
// transformers has for them. Errors name the key.
absl::Status ReadSharedRouter(const Config& config,
                              GroupedRouterDefaults defaults,
                              RouterOptions& router);

// Says which layers have a mixture, the others having an MLP:
// `mlp_layer_types`, or `first_k_dense_replace`, else `dense_layers`. Errors
// name the key.
absl::Status ReadMixtureLayers(const Config& config, size_t dense_layers,
                               ModelConfig& model);

// What bounds factors (MlpScale::limit).
struct MixtureLimits {
  float experts = 0;
  float shared = 0;
};

// The mixture of the options, whose experts may be in one tensor, beside an
// expert num_shared_experts times `shared_width` wide. Errors name the key or
// tensor.
absl::StatusOr<std::unique_ptr<Mixer>> MakeSharedMixture(
    const MixerBuilder& from, size_t shared_width, const MixtureLimits& limits,
    MixtureOptions options);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_PARTS_SHARED_MIXTURE_H_
