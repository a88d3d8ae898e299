#ifndef STEADYSTATE_SERVER_MODEL_MIXER_BUILDER_H_
#define STEADYSTATE_SERVER_MODEL_MIXER_BUILDER_H_

#include <cstddef>
#include <cstdint>

#include "kernels/linear/linear.h"
#include "server/model/config.h"
#include "server/model/state_layout.h"
#include "server/model/weight_store.h"
#include "server/model/workspace.h"

namespace steadystate {

// What a mixer is made from: it reads its keys, pulls its tensors, declares its
// state and its scratch memory. Lives while a model is loaded.
struct MixerBuilder {
  size_t layer = 0;
  size_t hidden_size = 0;  // D
  float norm_eps = 0;
  uint64_t context_cap = 0;  // tokens, for state that grows; 0 without any
  const Config& config;      // the whole config.json
  WeightScope weights;       // "model.layers.N.attn."
  LinearFactory& linears;
  StateLayoutBuilder& state;
  ScratchSize& scratch;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_MIXER_BUILDER_H_
