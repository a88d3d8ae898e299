#ifndef STEADYSTATE_SERVER_MODEL_LAYER_H_
#define STEADYSTATE_SERVER_MODEL_LAYER_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/model/family.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"
#include "server/model/norm.h"

namespace steadystate {

// One layer, as its LayerPlan says: residual steps
// h += residual_multiplier mixer(norm(h)), with norms where the plan has them,
// first with the token mixer, then with the channel mixer if there is
// one. Immutable; thread-safe given distinct workspaces.
class Layer {
 public:
  // `layer` and `weights` of `builder` are those of the layer,
  // "model.layers.N.".
  static absl::StatusOr<Layer> Make(const ModelConfig& config,
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
  struct Step {
    std::optional<Norm> before, after;
    std::unique_ptr<Mixer> mixer;
  };
  Layer(std::vector<Step> steps, size_t hidden_size, float multiplier)
      : steps_(std::move(steps)), D_(hidden_size), multiplier_(multiplier) {}
  // The norms of the token mixer, or of the channel mixer.
  static absl::Status TakeNorms(const ModelConfig& config,
                                const MixerBuilder& builder, bool channels,
                                Step& step);
  // Adds what a step's mixer has put out, f32[D], to a row of the residual.
  void AddMixed(const Step& step, float* mixed, float* residual) const;

  std::vector<Step> steps_;
  size_t D_;
  float multiplier_;  // of what mixers put out
};

// The token mixer of layer `builder.layer`, or the sum of two. `weights` of
// `builder` are the layer's, "model.layers.N.".
absl::StatusOr<std::unique_ptr<Mixer>> MakeTokenMixer(
    const ModelConfig& config, const MixerBuilder& builder);

// The channel mixer of the layer. `weights` of `builder` are the mixer's,
// "model.layers.N.mlp.". REQUIRES: the layer has one.
absl::StatusOr<std::unique_ptr<Mixer>> MakeChannelMixer(
    const ModelConfig& config, const MixerBuilder& builder);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_LAYER_H_
