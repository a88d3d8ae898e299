#ifndef STEADYSTATE_SERVER_MODEL_BLOCK_H_
#define STEADYSTATE_SERVER_MODEL_BLOCK_H_

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"
#include "server/model/mlp.h"
#include "server/model/model_config.h"

namespace steadystate {

// One layer: h += mixer(RMSNorm(h)); h += mlp(RMSNorm(h)). Immutable;
// thread-safe given distinct workspaces.
class Block {
 public:
  // `layer` and `weights` of `builder` are those of the layer:
  // "model.layers.N." here, the mixer's own prefix below it.
  static absl::StatusOr<Block> Make(const ModelConfig& config,
                                    const MixerBuilder& builder);

  // Advances the residual stream of the workspace, f32[rows, D], in place.
  void Forward(std::span<const Segment> segments, size_t rows,
               Workspace& workspace) const;

 private:
  Block(std::unique_ptr<Mixer> mixer, Mlp mlp)
      : mixer_(std::move(mixer)), mlp_(std::move(mlp)) {}

  float eps_ = 0;
  std::vector<float> mixer_norm_;  // f32[D]
  std::vector<float> mlp_norm_;    // f32[D]
  std::unique_ptr<Mixer> mixer_;
  Mlp mlp_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_BLOCK_H_
