#ifndef STEADYSTATE_SERVER_MODEL_MIXER_BUILDER_H_
#define STEADYSTATE_SERVER_MODEL_MIXER_BUILDER_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "kernels/linear/linear.h"
#include "server/checkpoint/config.h"
#include "server/checkpoint/weight_store.h"
#include "server/model/scratch_plan.h"
#include "server/model/state_layout.h"

namespace steadystate {

// What a mixer is made from: it reads its keys, pulls its tensors, declares its
// state and its scratch memory. Lives while a model is loaded.
struct MixerBuilder {
  size_t layer = 0;
  size_t layers = 0;       // of the model
  size_t hidden_size = 0;  // D
  float norm_eps = 0;
  uint64_t context_cap = 0;  // tokens, for state that grows; 0 without any
  const Config& config;      // the whole config.json
  WeightScope model;         // "model."
  WeightScope weights;       // "model.layers.N.attn."
  LinearFactory& linears;
  StateLayoutBuilder& state;
  ScratchSize& scratch;  // for plans

  // The same with a longer prefix of `weights`.
  MixerBuilder Child(absl::string_view prefix) const {
    MixerBuilder child = *this;
    child.weights = weights.Child(prefix);
    return child;
  }
  // The same with plans that count elsewhere.
  MixerBuilder PlanningIn(ScratchSize& other) const {
    return {.layer = layer,
            .layers = layers,
            .hidden_size = hidden_size,
            .norm_eps = norm_eps,
            .context_cap = context_cap,
            .config = config,
            .model = model,
            .weights = weights,
            .linears = linears,
            .state = state,
            .scratch = other};
  }
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_MIXER_BUILDER_H_
