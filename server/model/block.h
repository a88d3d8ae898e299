#ifndef STEADYSTATE_SERVER_MODEL_BLOCK_H_
#define STEADYSTATE_SERVER_MODEL_BLOCK_H_

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"
#include "server/model/model_config.h"
#include "server/model/norm.h"

namespace steadystate {

// One step of the residual stream: h += mixer(norm(h)).
struct ResidualStep {
  Norm norm;
  std::unique_ptr<Mixer> mixer;
};

// One layer: its residual steps, one after the other. Immutable; thread-safe
// given distinct workspaces.
class Block {
 public:
  // `layer` and `weights` of `builder` are those of the layer,
  // "model.layers.N.".
  static absl::StatusOr<Block> Make(const ModelConfig& config,
                                    const MixerBuilder& builder);

  // Advances the residual stream of the workspace, f32[rows, D], in place.
  void Forward(std::span<const Segment> segments, size_t rows,
               Workspace& workspace) const;

 private:
  explicit Block(std::vector<ResidualStep> steps) : steps_(std::move(steps)) {}

  std::vector<ResidualStep> steps_;
};

// The mixer over tokens that a layer has: the family's own, or softmax
// attention where the config says so. `weights` of `builder` are the mixer's,
// "model.layers.N.attn.".
absl::StatusOr<std::unique_ptr<Mixer>> MakeTokenMixer(
    const ModelConfig& config, const MixerBuilder& builder);

// The layer of most families:
//   h += mixer(norm(h; attn_norm)) with the mixer's tensors under attn.,
//   h += mlp(norm(h; mlp_norm)) with those of a SwiGLU MLP under mlp.
absl::StatusOr<std::vector<ResidualStep>> MakeMixerAndMlp(
    const ModelConfig& config, const MixerBuilder& builder);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_BLOCK_H_
