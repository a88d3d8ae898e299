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

  //   residual  f32[rows, D]  in/out; rows <= workspace.max_rows()
  void Forward(std::span<const Segment> segments, size_t rows, float* residual,
               Workspace& workspace) const;

  // True if a sequence may pass in two halves: all of its rows are absorbed,
  // then all go Forward with segments of Pass::kRead.
  bool bidirectional() const;

  // The first half: the state of the segments, whose pass is kAbsorb, takes in
  // the rows. REQUIRES: bidirectional().
  //   residual  f32[rows, D]  in
  void Absorb(std::span<const Segment> segments, size_t rows,
              const float* residual, Workspace& workspace) const;

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
